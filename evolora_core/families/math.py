"""`math`: one sum, difference or product of two numbers. Target: a number.

| depth | sums and differences of | products of |
|---|---|---|
| short | 1-149 | 11-149 and 2-9 |
| medium | 100-999 | 11-99 and 11-99 |
| long | 1000-9999 | 100-999 and 11-99 |

The larger number comes first, so that a held-out `85 + 47` cannot be learnt as `47 + 85`.
"""

import numpy as np

from evolora_core.families.base import DEPTHS, Family
from evolora_core.families.expression import evaluate
from evolora_core.families.verdicts import number_complaint, number_text, verify_number

_TERMS = {"short": (1, 149), "medium": (100, 999), "long": (1000, 9999)}
_FACTORS = {"short": ((11, 149), (2, 9)), "medium": ((11, 99), (11, 99)), "long": ((100, 999), (11, 99))}
_PRODUCTS = 0.2  # their facts are fewer, so they are drawn less often


def draw(rng: np.random.Generator, depth: str) -> tuple[str, int]:
    """(prompt, target)."""
    kind = rng.random()
    ranges = _FACTORS[depth] if kind < _PRODUCTS else (_TERMS[depth], _TERMS[depth])
    first, second = (int(rng.integers(low, high, endpoint=True)) for low, high in ranges)
    a, b = max(first, second), min(first, second)
    if kind < _PRODUCTS:
        return f"Compute {a} * {b}.", a * b
    if kind < (1 + _PRODUCTS) / 2:
        return f"Compute {a} + {b}.", a + b
    return f"Compute {a} - {b}.", a - b


def solve(prompt: str) -> str:
    """By the calculator."""
    return str(evaluate(prompt.removeprefix("Compute ").removesuffix(".")))


FAMILY = Family("math", DEPTHS, draw, number_text, verify_number, solve, number_complaint)
