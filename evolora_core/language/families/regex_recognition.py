r"""`regex.recognition`: does a pattern match the whole of a string? Target: {expected: bool, pattern, test_string}.

The answer is a fair coin; strings that do not match are near misses.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from evolora_core.language.families.base import DEPTHS, Family, Grade, Item
from evolora_core.language.families.patterns import Segments, draw_segments, pattern_of, sample
from evolora_core.language.families.variants import draw_miss
from evolora_core.language.families.verdicts import boolean_complaint, boolean_of, verify_boolean


def draw(rng: np.random.Generator, depth: str) -> tuple[str, dict[str, Any]]:
    """(prompt, target)."""
    return pose(draw_segments(rng, depth), rng)


def pose(segments: Segments, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """(prompt, target) about a pattern."""
    expected = rng.random() < 0.5
    text = sample(segments, rng) if expected else draw_miss(segments, rng)
    pattern = pattern_of(segments)
    return f"Does {pattern} match all of '{text}'? Yes or no.", {
        "expected": expected,
        "pattern": pattern,
        "test_string": text,
    }


def solution(target: dict[str, Any]) -> str:
    """`Yes` or `No`."""
    return "Yes" if boolean_of(target["expected"]) else "No"


def verify(item: Item, answer: str) -> Grade:
    """Yes/true against no/false."""
    return verify_boolean(replace(item, target=item.target["expected"]), answer)


def solve(prompt: str) -> str:
    """Match the pattern with Python's `re`, which the generator does not use."""
    pattern, _, rest = prompt.removeprefix("Does ").partition(" match all of '")
    return "Yes" if re.fullmatch(pattern, rest.removesuffix("'? Yes or no.")) else "No"


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    if not isinstance(target, dict) or "expected" not in target:
        return "must be an object with expected"
    trouble = boolean_complaint(target["expected"])
    return trouble and f"expected: {trouble}"


FAMILY = Family("regex.recognition", DEPTHS, draw, solution, verify, solve, complaint, chance=0.5)
