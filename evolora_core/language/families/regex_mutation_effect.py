"""`regex.mutation_effect`: which strings does a loosened pattern match that the old one does not?

Target: {required_keywords: the strings asked for, strings: all that were offered, pattern, mutated_pattern}. A string
counts as named where it stands between blanks, commas, quotes or brackets. Correct where exactly the right ones of the
strings offered are named; the score is (right ones − wrong ones) / wanted. A published row without `strings` offers
what its prompt has in quotes.
"""

import re
from typing import Any

import numpy as np

from evolora_core.language.families.answers import final_lines
from evolora_core.language.families.base import CORRECT, DEPTHS, NO_ANSWER, Family, Grade, Item, wrong
from evolora_core.language.families.patterns import Segments, draw_segments, matches, pattern_of, sample
from evolora_core.language.families.variants import draw_miss, loosened

_DRAWS = 8
_LONGEST_PROMPT = 160


def draw(rng: np.random.Generator, depth: str) -> tuple[str, dict[str, Any]]:
    """(prompt, target)."""
    while True:
        segments = draw_segments(rng, depth)
        changed = loosened(segments, rng)
        posed = None if changed is None else pose(segments, changed, rng)
        if posed is not None and len(posed[0]) <= _LONGEST_PROMPT:
            return posed


def pose(segments: Segments, changed: Segments, rng: np.random.Generator) -> tuple[str, dict[str, Any]] | None:
    """(prompt, target) about a pattern and a looser one; None where no string was found that tells them apart."""
    texts = dict.fromkeys(sample(changed, rng) for _ in range(_DRAWS))
    wanted = [text for text in texts if not matches(segments, text)][: int(rng.integers(1, 3))]
    offered = [*wanted, sample(segments, rng), draw_miss(changed, rng)]
    offered = [offered[index] for index in rng.permutation(len(offered)).tolist()]
    if not wanted:
        return None
    old, new = pattern_of(segments), pattern_of(changed)
    target = {
        "required_keywords": [text for text in offered if text in wanted],
        "strings": offered,
        "pattern": old,
        "mutated_pattern": new,
    }
    return f"Which match {new} but not {old}: {', '.join(offered)}", target


def solution(target: dict[str, Any]) -> str:
    """The strings asked for, in the order they were offered."""
    return ", ".join(target["required_keywords"])


def verify(item: Item, answer: str) -> Grade:
    """Grade by which of the offered strings the answer names."""
    text = "\n".join(final_lines(answer, several=True))
    if not text:
        return NO_ANSWER
    wanted = set(item.target["required_keywords"])
    offered = wanted | set(item.target.get("strings") or re.findall(r'"([^"\n]+)"', item.prompt))
    named = {string for string in offered if names(text, string)}
    if named == wanted:
        return CORRECT
    return wrong(max(0.0, (len(named & wanted) - len(named - wanted)) / len(wanted)))


def names(text: str, string: str) -> bool:
    """Whether `string` stands in `text` between blanks, commas, quotes, stars, brackets or final punctuation."""
    return re.search(rf"(?<![^\s,;\"'`*(\[]){re.escape(string)}(?=[.:!?]*(?:[\s,;\"'`*)\]]|$))", text) is not None


def solve(prompt: str) -> str:
    """The offered strings that only the new pattern matches, by Python's `re`."""
    new, _, rest = prompt.removeprefix("Which match ").partition(" but not ")
    old, _, offered = rest.partition(": ")
    return ", ".join(text for text in offered.split(", ") if re.fullmatch(new, text) and not re.fullmatch(old, text))


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    if not isinstance(target, dict):
        return "must be an object with required_keywords"
    keywords = target.get("required_keywords")
    if not isinstance(keywords, list) or not keywords or not all(isinstance(word, str) and word for word in keywords):
        return "required_keywords: must be a list of texts with at least one entry"
    return None


FAMILY = Family("regex.mutation_effect", DEPTHS, draw, solution, verify, solve, complaint)
