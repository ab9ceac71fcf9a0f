"""A family in a file of its own: letters in a circle, moved on by one place."""

import re
from operator import eq
from typing import Any

import numpy as np

from evolora_core.language.families.answers import extract_letters
from evolora_core.language.families.base import DEPTHS, NO_ANSWER, Family, Grade, Item
from evolora_core.language.families.verdicts import verify_sequence

LENGTHS = {"short": 4, "medium": 6, "long": 9}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, str]:
    """(prompt, target): the target may be any JSON value that `solution` understands."""
    letters = [chr(97 + code) for code in rng.integers(26, size=LENGTHS[depth]).tolist()]
    return f"Move the first letter to the end: {' '.join(letters)}", "".join(letters)


def solution(target: Any) -> str:
    """The right answer, as supervised arms learn it."""
    text = str(target)
    return text[1:] + text[0]


def verify(item: Item, answer: str) -> Grade:
    """Right if all letters are; the score is the share of places that are right."""
    found = extract_letters(answer)
    return verify_sequence(found, solution(item.target), eq) if found else NO_ANSWER


def solve(prompt: str) -> str:
    """A second way to the answer, from the text alone."""
    letters = re.findall(r"\b[a-z]\b", prompt.partition(":")[2])
    return "".join([*letters[1:], letters[0]])


def complaint(target: Any) -> str | None:
    """What is wrong with a target that somebody's holdout file gives."""
    return None if isinstance(target, str) and target.isalpha() else "must be the letters as a string"


FAMILY = Family("string.rotate", DEPTHS, draw, solution, verify, solve, complaint)
