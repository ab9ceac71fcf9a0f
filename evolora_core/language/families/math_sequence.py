"""`math.sequence`: the next term. Target: a number, never negative.

short: 3 terms, a constant step up or down of at most 9. medium: 4 terms, a larger step, sometimes a constant ratio.
long: 5 terms, a step that itself grows by a constant, or a constant ratio. The simplest rule counts: constant step,
else constant ratio, else constant growth of the step (which five terms determine).
"""

import re
from itertools import pairwise

import numpy as np

from evolora_core.language.families.base import DEPTHS, Family
from evolora_core.language.families.verdicts import number_complaint, number_text, verify_number

_TERMS = {"short": 3, "medium": 4, "long": 5}
_RATIO_SHARE = 0.1  # few such sequences exist


def draw(rng: np.random.Generator, depth: str) -> tuple[str, int]:
    """(prompt, target)."""
    terms = _TERMS[depth]
    if depth == "short":
        start, step = _between(rng, 0, 999), _between(rng, 1, 9)
        series = [start + k * step for k in range(terms + 1)]
        if rng.random() < 0.5:
            series.reverse()
    elif rng.random() < _RATIO_SHARE:
        start, ratio = _between(rng, 1, 60), _between(rng, 2, 3 if depth == "long" else 5)
        series = [start * ratio**k for k in range(terms + 1)]
    elif depth == "medium":
        start, step = _between(rng, 0, 199), _between(rng, 2, 99)
        series = [start + k * step for k in range(terms + 1)]
        if rng.random() < 0.5:
            series.reverse()
    else:
        start, step, growth = _between(rng, 1, 99), _between(rng, 1, 40), _between(rng, 0, 9)
        series = [start + k * step + growth * k * (k - 1) // 2 for k in range(terms + 1)]
    return f"Next number: {', '.join(map(str, series[:-1]))}", series[-1]


def solve(prompt: str) -> str:
    """The next term, from differences and ratios of the terms shown."""
    shown = [int(term) for term in re.findall(r"\d+", prompt)]
    steps = [b - a for a, b in pairwise(shown)]
    if len(set(steps)) == 1:
        return str(shown[-1] + steps[-1])
    if all(b * shown[0] == a * shown[1] for a, b in pairwise(shown)):
        return str(shown[-1] * shown[1] // shown[0])
    if len({b - a for a, b in pairwise(steps)}) == 1:
        return str(shown[-1] + 2 * steps[-1] - steps[-2])
    raise ValueError(f"{prompt!r} follows no known rule")


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high, endpoint=True))


FAMILY = Family("math.sequence", DEPTHS, draw, number_text, verify_number, solve, number_complaint)
