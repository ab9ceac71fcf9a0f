r"""`regex.synthesis` (alias `regex`): write a pattern that matches what a description says.

Target: {pattern, test_strings: [{string, should_match}]}. Correct where all strings come out right; the score is the
fraction.
"""

import re
from typing import Any

import numpy as np

from evolora_core.errors import DataError
from evolora_core.language.families.answers import extract_pattern
from evolora_core.language.families.base import DEPTHS, Family, Grade, Item
from evolora_core.language.families.matching import grade_pattern
from evolora_core.language.families.patterns import Segments, draw_segments, pattern_of, words_of
from evolora_core.language.families.variants import draw_cases

_ATOMS = {"digits": r"\d", "small letters": "[a-z]", "capitals": "[A-Z]", "hex digits": "[0-9a-f]"}
_NUMBERS = {
    "00-23": r"([01]\d|2[0-3])",
    "00-59": r"[0-5]\d",
    "01-12": r"(0[1-9]|1[0-2])",
    "01-31": r"(0[1-9]|[12]\d|3[01])",
}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, dict[str, Any]]:
    """(prompt, target)."""
    return pose(draw_segments(rng, depth), rng)


def pose(segments: Segments, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """(prompt, target) about a pattern."""
    return f"Write a regex for: {words_of(segments)}", {
        "pattern": pattern_of(segments),
        "test_strings": draw_cases(segments, rng),
    }


def solution(target: dict[str, Any]) -> str:
    """The gold pattern. DataError where a published row has none."""
    pattern = target.get("pattern")
    if not isinstance(pattern, str):
        raise DataError(
            "target.pattern: missing, so the item has no gold answer; give one or use it for evaluation only"
        )
    return pattern


def cases_of(target: dict[str, Any]) -> list[tuple[str, bool]]:
    """(string, should match) of each test string."""
    return [(case["string"], case["should_match"]) for case in target["test_strings"]]


def verify(item: Item, answer: str) -> Grade:
    """Grade by the test strings."""
    return grade_pattern(extract_pattern(answer), cases_of(item.target))


def read_description(words: str) -> str:
    """A pattern from its description, segment by segment."""
    return "".join(_read_segment(part) for part in words.split(", "))


def _read_segment(words: str) -> str:
    if quoted := re.fullmatch(r"(optional )?'([^']*)'", words):
        text = re.escape(quoted.group(2))
        return f"(?:{text})?" if quoted.group(1) else text
    if choice := re.fullmatch(r"'([^']*)' or '([^']*)'", words):
        return f"(?:{re.escape(choice.group(1))}|{re.escape(choice.group(2))})"
    if words in _NUMBERS:
        return _NUMBERS[words]
    run = re.fullmatch(r"(\d+)(?: (or more)| to (\d+))? (.+)", words)
    if run is None:
        raise ValueError(f"{words!r} describes no segment")
    low, more, high, kind = run.groups()
    upper = "" if more else high or low
    return f"{_ATOMS[kind]}{{{low},{upper}}}"


def solve(prompt: str) -> str:
    """Translate the description into a pattern."""
    return read_description(prompt.partition(": ")[2])


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    if not isinstance(target, dict):
        return "must be an object with pattern and test_strings"
    cases = target.get("test_strings")
    if not isinstance(cases, list) or not cases:
        return "test_strings: must be a list of {string, should_match} with at least one entry"
    for index, case in enumerate(cases):
        shaped = (
            isinstance(case, dict)
            and isinstance(case.get("string"), str)
            and isinstance(case.get("should_match"), bool)
        )
        if not shaped:
            return f"test_strings[{index}]: must be an object with string (text) and should_match (true or false)"
    if not isinstance(target.get("pattern"), str | None):
        return "pattern: must be text"
    return None


FAMILY = Family("regex.synthesis", DEPTHS, draw, solution, verify, solve, complaint)
