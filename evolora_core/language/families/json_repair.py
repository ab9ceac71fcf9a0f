"""`json_repair`: write 3, 4 or 6 integers as a JSON array in ascending order.

Target: the sorted list. The score is the fraction of positions that are right.
"""

import json
import re
from typing import Any

import numpy as np

from evolora_core.language.families.answers import extract_array, same_json
from evolora_core.language.families.base import DEPTHS, NO_ANSWER, Family, Grade, Item
from evolora_core.language.families.verdicts import verify_sequence

_NUMBERS = {"short": 3, "medium": 4, "long": 6}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, list[int]]:
    """(prompt, target)."""
    numbers = rng.integers(100, size=_NUMBERS[depth]).tolist()
    return f"Sort as a JSON array: {', '.join(map(str, numbers))}", sorted(numbers)


def verify(item: Item, answer: str) -> Grade:
    """Any spelling of the array that JSON allows."""
    found = extract_array(answer)
    return NO_ANSWER if found is None else verify_sequence(found, item.target, same_json)


def solve(prompt: str) -> str:
    """The prompt's numbers as an array, sorted by insertion."""
    placed: list[int] = []
    for number in map(int, re.findall(r"\d+", prompt)):
        placed.insert(sum(other <= number for other in placed), number)
    return f"[{', '.join(map(str, placed))}]"


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    return None if isinstance(target, list) and target else "must be a list"


FAMILY = Family("json_repair", DEPTHS, draw, json.dumps, verify, solve, complaint)
