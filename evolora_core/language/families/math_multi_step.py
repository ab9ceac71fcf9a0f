"""`math.multi_step`: an expression whose order of operations matters. Target: a number, never negative.

short `a - (b + c)`, medium `a + b * c`, long `(a + b) * c - (d + e)`.
"""

import numpy as np

from evolora_core.language.families.base import DEPTHS, Family
from evolora_core.language.families.expression import evaluate
from evolora_core.language.families.verdicts import number_complaint, number_text, verify_number

# inclusive ranges of a, b, c, d, e
_RANGES = {
    "short": ((20, 299), (1, 9), (1, 9)),
    "medium": ((1, 199), (2, 9), (2, 9)),
    "long": ((3, 19), (3, 19), (2, 9), (1, 5), (1, 5)),
}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, int]:
    """(prompt, target)."""
    low, high = zip(*_RANGES[depth], strict=True)
    numbers = rng.integers(low, high, endpoint=True).tolist()
    if depth == "short":
        a, b, c = numbers
        return f"Evaluate {a} - ({b} + {c}).", a - (b + c)
    if depth == "medium":
        a, b, c = numbers
        return f"Evaluate {a} + {b} * {c}.", a + b * c
    a, b, c, d, e = numbers
    return f"Evaluate ({a} + {b}) * {c} - ({d} + {e}).", (a + b) * c - (d + e)


def solve(prompt: str) -> str:
    """Evaluate the expression with the calculator."""
    return str(evaluate(prompt.removeprefix("Evaluate ").removesuffix(".")))


FAMILY = Family("math.multi_step", DEPTHS, draw, number_text, verify_number, solve, number_complaint)
