r"""`regex.refactoring`: write a pattern shorter without changing what it matches.

Target: {pattern, original_pattern, test_strings}. Correct where all strings come out right and the new pattern has
fewer characters than the original (or no more than the gold one). If only the strings come out right, the score is a
half; otherwise half the fraction that does.
"""

import re
from typing import Any

import numpy as np

from evolora_core.language.families.answers import extract_pattern
from evolora_core.language.families.base import CORRECT, DEPTHS, Family, Grade, Item
from evolora_core.language.families.matching import grade_pattern
from evolora_core.language.families.patterns import CLASSES, Literal, Run, Segment, Segments, draw_segments, pattern_of
from evolora_core.language.families.regex_synthesis import cases_of, complaint, solution
from evolora_core.language.families.variants import draw_cases

_NOT_SHORTER = "not shorter"


def draw(rng: np.random.Generator, depth: str) -> tuple[str, dict[str, Any]]:
    """(prompt, target)."""
    while True:
        segments = draw_segments(rng, depth)
        inflate = (rng.random(len(segments)) < 0.7).tolist()
        original = "".join(
            _inflated(segment, rng) if chosen else segment.pattern()
            for segment, chosen in zip(segments, inflate, strict=True)
        )
        if len(pattern_of(segments)) < len(original) <= 70:
            return pose(segments, original, rng)


def pose(segments: Segments, original: str, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """(prompt, target) about a pattern and a longer text of the same."""
    return f"Shorten the regex {original}", {
        "pattern": pattern_of(segments),
        "original_pattern": original,
        "test_strings": draw_cases(segments, rng),
    }


def _inflated(segment: Segment, rng: np.random.Generator) -> str:
    """The same segment, written longer."""
    if isinstance(segment, Run):
        atom = "[0-9]" if segment.kind == "digits" else CLASSES[segment.kind][0]
        if segment.high is None:
            return f"{atom}{atom}*"
        if segment.low == segment.high and segment.low <= 3 and rng.random() < 0.5:
            return atom * segment.low
        return f"(?:{atom}){segment.pattern()[len(CLASSES[segment.kind][0]) :]}"
    if isinstance(segment, Literal) and not segment.optional:
        return (
            f"(?:{segment.pattern()})"
            if rng.random() < 0.5
            else "".join(f"[{character}]" for character in segment.text)
        )
    return f"(?:{segment.pattern()})"


def verify(item: Item, answer: str) -> Grade:
    """Grade by the test strings, then by the length of the pattern."""
    pattern = extract_pattern(answer)
    grade = grade_pattern(pattern, cases_of(item.target))
    if pattern is None or not grade.correct:
        return Grade(grade.score / 2, False, grade.reason)
    original, gold = item.target.get("original_pattern"), item.target.get("pattern")
    short = original is None or len(pattern) < len(original) or (gold is not None and len(pattern) <= len(gold))
    return CORRECT if short else Grade(0.5, False, _NOT_SHORTER)


_ATOM = r"(?:\\.|\[[^\]]*\]|[^\\\[\](){}|?*+])"
_REWRITES = (
    (re.compile(r"\[0-9\]"), r"\\d"),
    (re.compile(r"\[([a-z_:/@#-])\]"), r"\1"),  # a class of one ordinary character
    (re.compile(r"\[([.+])\]"), r"\\\1"),
    (re.compile(rf"\(\?:({_ATOM})\)"), r"\1"),  # a group around one atom
    (re.compile(rf"\(\?:((?:{_ATOM}(?:\{{[\d,]+\}}|[?+*])?)+|\((?:[^()]|\\.)*\)|\(\?:[a-z]+\)\?)\)(?![?*+{{])"), r"\1"),
    (re.compile(rf"({_ATOM})\1\*"), r"\1+"),
)
_REPEATED = re.compile(r"(\\d|\[[^\]]*\])(\1{1,})(?![{*+?])")


def solve(prompt: str) -> str:
    """Shorten the pattern by rewriting until nothing changes."""
    pattern = prompt.removeprefix("Shorten the regex ")
    before = None
    while pattern != before:
        before = pattern
        for redundant, plain in _REWRITES:
            pattern = redundant.sub(plain, pattern)
    return _REPEATED.sub(lambda run: f"{run.group(1)}{{{len(run.group()) // len(run.group(1))}}}", pattern)


def _complaint(target: Any) -> str | None:
    trouble = complaint(target)
    if trouble is None and not isinstance(target.get("original_pattern"), str | None):
        return "original_pattern: must be text"
    return trouble


FAMILY = Family("regex.refactoring", DEPTHS, draw, solution, verify, solve, _complaint)
