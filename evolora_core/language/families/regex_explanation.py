r"""`regex.explanation`: put a pattern into words, such as `3 digits, 'id', optional '-'`.

Target: {pattern, terms, reference_answer}. `terms` are the counts, kinds, quoted texts, `or`, `or more` and `optional`
of the reference, in order. An answer is read for its own terms (synonyms such as `lower-case letters` or `three`
count), which must be the same ones in the same order: naming everything, or the pattern itself, earns nothing. The
score is the longest common subsequence over the longer list. A published row has `required_keywords` instead: each must
occur as a whole word (any case); correct where all do, and the score is the fraction.
"""

import re
from typing import Any

import numpy as np

from evolora_core.language.families.answers import final_lines
from evolora_core.language.families.base import CORRECT, DEPTHS, NO_ANSWER, Family, Grade, Item, wrong
from evolora_core.language.families.patterns import Segments, draw_segments, pattern_of, words_of
from evolora_core.language.families.regex_mutation_effect import complaint as keyword_complaint

_NUMERAL_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMERALS = {word: str(value) for value, word in enumerate(_NUMERAL_WORDS)}
_TERM = re.compile(
    r"(?P<text>'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`)|\b(?:"
    r"(?P<more>or more)|(?P<optional>optional)|(?P<or>or)|(?P<hex>hex(?:adecimal)? digits?)|"
    r"(?P<digits>digits?|numbers?)|"
    r"(?P<small>(?:small|lower-?case) letters?)|(?P<capitals>capitals?(?: letters?)?|upper-?case letters?)|"
    rf"(?P<number>\d+|{'|'.join(_NUMERALS)}))\b",
    re.IGNORECASE,
)
_SEGMENT = re.compile(
    r"(?P<atom>\\d|\[a-z\]|\[A-Z\]|\[0-9a-f\])(?:\{(?P<low>\d+)(?:,(?P<high>\d+))?\}|(?P<plus>\+))|"
    r"(?P<bounded>\(\[01\]\\d\|2\[0-3\]\)|\[0-5\]\\d|\(0\[1-9\]\|1\[0-2\]\)|\(0\[1-9\]\|\[12\]\\d\|3\[01\]\))|"
    r"\((?P<first>[a-z]+)\|(?P<second>[a-z]+)\)|\(\?:(?P<word>[a-z]+)\)\?|(?P<plain>[a-z]+)|\\?(?P<mark>[^a-z])(?P<maybe>\??)"
)
_KINDS = {r"\d": "digits", "[a-z]": "small letters", "[A-Z]": "capitals", "[0-9a-f]": "hex digits"}
_NUMBERS = {
    r"([01]\d|2[0-3])": "00-23",
    r"[0-5]\d": "00-59",
    "(0[1-9]|1[0-2])": "01-12",
    r"(0[1-9]|[12]\d|3[01])": "01-31",
}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, dict[str, Any]]:
    """(prompt, target)."""
    return pose(draw_segments(rng, depth))


def pose(segments: Segments) -> tuple[str, dict[str, Any]]:
    """(prompt, target) about a pattern."""
    pattern, words = pattern_of(segments), words_of(segments)
    return f"In words, like 1 or more digits, 'x': {pattern}", {
        "pattern": pattern,
        "terms": read_terms(words),
        "reference_answer": words,
    }


def solution(target: dict[str, Any]) -> str:
    """The description; of a published row the keywords, joined."""
    return target["reference_answer"] if "terms" in target else " ".join(target["required_keywords"])


def read_terms(text: str) -> list[str]:
    """The terms of a description in words, normalised."""
    terms = []
    for found in _TERM.finditer(text):
        kind, word = str(found.lastgroup), found.group().lower()
        if kind == "number":
            terms.append(_NUMERALS.get(word, word))
        else:
            terms.append(f"'{found.group()[1:-1]}'" if kind == "text" else kind)
    return terms


def verify(item: Item, answer: str) -> Grade:
    """Grade by the terms in order, or by the keywords of a published row."""
    text = _bare("\n".join(final_lines(answer, several=True)))
    if not text:
        return NO_ANSWER
    if "terms" in item.target:
        found, expected = read_terms(text), item.target["terms"]
        if found == expected:
            return CORRECT
        return wrong(_common(found, expected) / max(len(found), len(expected)))
    keywords = item.target["required_keywords"]
    hits = sum(_has_word(text, keyword) for keyword in keywords)
    return CORRECT if hits == len(keywords) else wrong(hits / len(keywords))


def _bare(text: str) -> str:
    """A description without quotes or back-ticks around all of it, which would make one quoted text of it."""
    for mark in ("`", '"'):
        if text.startswith(mark) and text.endswith(mark) and text.count(mark) == 2 and " " in text:
            return text[1:-1]
    return text


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _common(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for left in a:
        diagonal = 0
        for index, right in enumerate(b):
            diagonal, row[index + 1] = (
                row[index + 1],
                diagonal + 1 if left == right else max(row[index], row[index + 1]),
            )
    return row[-1]


def solve(prompt: str) -> str:
    """Describe the pattern, read piece by piece."""
    pattern = prompt.partition("'x': ")[2]
    parts = []
    for found in _SEGMENT.finditer(pattern):
        part = found.groupdict()
        if part["atom"]:
            many = "1 or more" if part["plus"] else f"{part['low']} to {part['high']}" if part["high"] else part["low"]
            parts.append(f"{many} {_KINDS[part['atom']]}")
        elif part["bounded"]:
            parts.append(_NUMBERS[part["bounded"]])
        elif part["first"]:
            parts.append(f"'{part['first']}' or '{part['second']}'")
        elif part["word"]:
            parts.append(f"optional '{part['word']}'")
        else:
            parts.append(f"{'optional ' if part['maybe'] else ''}'{part['plain'] or part['mark']}'")
    return ", ".join(parts)


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    if isinstance(target, dict) and "terms" in target:
        terms = target["terms"]
        good = isinstance(terms, list) and terms and isinstance(target.get("reference_answer"), str)
        return None if good else "terms: must be a list with at least one entry, beside a text reference_answer"
    return keyword_complaint(target)


FAMILY = Family("regex.explanation", DEPTHS, draw, solution, verify, solve, complaint)
