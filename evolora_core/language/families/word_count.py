"""`word.count`: how many words a text has. Numbers and markup tags are no words. Target: a number.

short: 2-6 words; medium: 4-8 words among numbers and punctuation; long: 6-10 words, some of them in tags too.
"""

import re

import numpy as np

from evolora_core.language.families.base import DEPTHS, Family
from evolora_core.language.families.verdicts import number_complaint, number_text, verify_number

_INSTRUCTION = "Count words, not numbers or tags: "
_WORDS_TEXT = (
    "ant ash bay bee bird boat bone cake calm cat clay coal cook crow dawn deer dog door duck dust elm farm fern "
    "fish fog fox frog gate goat gold hare hawk hill ice iron jam kite lake lamp leaf lion mist moon moss moth nest "
    "oak owl path pear pine pond rain reed rice road rock rose salt sand seal seed ship snow"
)
_WORDS = tuple(_WORDS_TEXT.split())
_COUNT = {"short": (2, 6), "medium": (4, 8), "long": (6, 10)}
_MARKS = ("", "", ",", ";", "!", "?")


def draw(rng: np.random.Generator, depth: str) -> tuple[str, int]:
    """(prompt, target)."""
    low, high = _COUNT[depth]
    count = int(rng.integers(low, high, endpoint=True))
    tokens = [_WORDS[index] for index in rng.integers(len(_WORDS), size=count).tolist()]
    if depth != "short":
        marks = rng.integers(len(_MARKS), size=count).tolist()
        tokens = [token + _MARKS[mark] for token, mark in zip(tokens, marks, strict=True)]
    if depth == "long":
        first, second = rng.choice(count, size=2, replace=False).tolist()
        tokens[first], tokens[second] = f"<b>{tokens[first]}</b>", f"<i>{tokens[second]}</i>"
    if depth != "short":
        for number in rng.integers(1, 100, size=int(rng.integers(1, 4))).tolist():
            tokens.insert(int(rng.integers(len(tokens) + 1)), str(number))
    return _INSTRUCTION + " ".join(tokens), count


def solve(prompt: str) -> str:
    """Walk the characters and count words: runs of letters outside angle brackets."""
    text = re.sub(r"<[^>]*>", " ", prompt.removeprefix(_INSTRUCTION))
    return str(sum(a.isalpha() and not b.isalpha() for a, b in zip(text, text[1:] + " ", strict=True)))


FAMILY = Family("word.count", DEPTHS, draw, number_text, verify_number, solve, number_complaint, to_the_end=True)
