"""`string.sort`: 5, 8 or 12 small letters in alphabetical order.

Target: the letters in any order, as a string or a list of letters; they are sorted before comparing (published files
store them unsorted). The score is the fraction of positions that are right.
"""

import re
from operator import eq
from typing import Any

import numpy as np

from evolora_core.language.families.answers import extract_array, extract_letters
from evolora_core.language.families.base import DEPTHS, NO_ANSWER, Family, Grade, Item
from evolora_core.language.families.verdicts import verify_sequence

LENGTHS = {"short": 5, "medium": 8, "long": 12}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, str]:
    """(prompt, target)."""
    return question(draw_letters(rng, depth))


def draw_letters(rng: np.random.Generator, depth: str) -> list[str]:
    """Small letters, with repeats, as many as the depth has."""
    return [chr(97 + code) for code in rng.integers(26, size=LENGTHS[depth]).tolist()]


def question(letters: list[str]) -> tuple[str, str]:
    """(prompt, target) of these letters."""
    return f"Sort the letters: {' '.join(letters)}", "".join(letters)


def solution(target: Any) -> str:
    """The letters, sorted and joined."""
    return "".join(sorted("".join("".join(target).split())))


def verify(item: Item, answer: str) -> Grade:
    """The letters in order."""
    return grade_letters(answer, solution(item.target))


def grade_letters(answer: str, wanted: str) -> Grade:
    """Letters written together or apart, or a JSON array of letters."""
    array = extract_array(answer, anywhere=False)
    found = "".join(map(str, array)) if array else extract_letters(answer)
    return verify_sequence(found, wanted, eq) if found else NO_ANSWER


def solve(prompt: str) -> str:
    """Go through the alphabet and repeat each letter as often as the prompt has it."""
    letters = re.findall(r"\b[a-z]\b", prompt.partition(":")[2])
    return "".join(letter * letters.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz")


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    listed = isinstance(target, list) and all(isinstance(letter, str) for letter in target)
    return (
        None
        if (isinstance(target, str) or listed) and solution(target)
        else "must be the letters, as a string or a list"
    )


FAMILY = Family("string.sort", DEPTHS, draw, solution, verify, solve, complaint)
