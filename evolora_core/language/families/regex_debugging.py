"""`regex.debugging`: mend a pattern that does not do what its description says.

Target: {pattern, broken_pattern, test_strings}; among the strings are some on which the broken pattern errs. Graded as
synthesis.
"""

from typing import Any

import numpy as np

from evolora_core.language.families.base import DEPTHS, Family
from evolora_core.language.families.patterns import Segments, draw_segments, pattern_of, words_of
from evolora_core.language.families.regex_synthesis import complaint, read_description, solution, verify
from evolora_core.language.families.variants import broken, draw_cases, told_apart


def draw(rng: np.random.Generator, depth: str) -> tuple[str, dict[str, Any]]:
    """(prompt, target)."""
    while True:
        segments = draw_segments(rng, depth)
        posed = pose(segments, broken(segments, rng), rng)
        if posed is not None:
            return posed


def pose(segments: Segments, changed: Segments, rng: np.random.Generator) -> tuple[str, dict[str, Any]] | None:
    """(prompt, target) about a pattern and a `changed` one; None where no string was found that tells them apart."""
    telling = told_apart(segments, changed, rng)
    if not telling:
        return None
    return f"Fix {pattern_of(changed)} to match: {words_of(segments)}", {
        "pattern": pattern_of(segments),
        "broken_pattern": pattern_of(changed),
        "test_strings": draw_cases(segments, rng) + telling,
    }


def solve(prompt: str) -> str:
    """Translate the description into a pattern; the broken pattern is not used."""
    return read_description(prompt.partition(" to match: ")[2])


FAMILY = Family("regex.debugging", DEPTHS, draw, solution, verify, solve, complaint)
