"""`string.reverse`: 5, 8 or 12 small letters, backwards.

Target: the letters as shown, as a string. The same surface as `string.sort`, another rule. The score is the fraction of
positions that are right.
"""

from operator import eq
from typing import Any

import numpy as np

from evolora_core.language.families.answers import extract_letters
from evolora_core.language.families.base import DEPTHS, NO_ANSWER, Family, Grade, Item
from evolora_core.language.families.string_sort import draw_letters
from evolora_core.language.families.verdicts import verify_sequence


def draw(rng: np.random.Generator, depth: str) -> tuple[str, str]:
    """(prompt, target)."""
    letters = draw_letters(rng, depth)
    return f"Reverse the letters: {' '.join(letters)}", "".join(letters)


def solution(target: Any) -> str:
    """The letters from the last to the first."""
    return str(target)[::-1]


def verify(item: Item, answer: str) -> Grade:
    """Letters written together or apart."""
    found = extract_letters(answer)
    return verify_sequence(found, solution(item.target), eq) if found else NO_ANSWER


def solve(prompt: str) -> str:
    """Take letters off the end of the prompt until none is left."""
    rest, taken = prompt.partition(":")[2].split(), ""
    while rest:
        taken += rest.pop()
    return taken


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    return None if isinstance(target, str) and target.isalpha() else "must be the letters, as a string"


FAMILY = Family("string.reverse", DEPTHS, draw, solution, verify, solve, complaint)
