"""`math`: one sum, difference or product of two numbers. Target: a number.

| depth | sums and differences of | products of |
|---|---|---|
| short | 10-999 and 1-9 | none: their facts are too few |
| medium | 10-999 and 10-99 | 11-999 and 2-9 |
| long | 100-999 and 100-999 | 100-999 and 11-99 |

The larger number comes first, so that a held-out `85 + 47` cannot be learnt as `47 + 85`.
"""

import numpy as np

from evolora_core.language.families.base import DEPTHS, Family
from evolora_core.language.families.expression import evaluate
from evolora_core.language.families.verdicts import number_complaint, number_text, verify_number

_TERMS = {"short": ((10, 999), (1, 9)), "medium": ((10, 999), (10, 99)), "long": ((100, 999), (100, 999))}
_FACTORS = {"medium": ((11, 999), (2, 9)), "long": ((100, 999), (11, 99))}
_PRODUCTS = {"short": 0.0, "medium": 0.2, "long": 0.2}  # their facts are fewer, so they are drawn less often


def draw(rng: np.random.Generator, depth: str) -> tuple[str, int]:
    """(prompt, target)."""
    kind, products = rng.random(), _PRODUCTS[depth]
    ranges = _FACTORS[depth] if kind < products else _TERMS[depth]
    first, second = (int(rng.integers(low, high, endpoint=True)) for low, high in ranges)
    a, b = max(first, second), min(first, second)
    if kind < products:
        return f"Compute {a} * {b}.", a * b
    if kind < (1 + products) / 2:
        return f"Compute {a} + {b}.", a + b
    return f"Compute {a} - {b}.", a - b


def solve(prompt: str) -> str:
    """Evaluate the expression with the calculator."""
    return str(evaluate(prompt.removeprefix("Compute ").removesuffix(".")))


FAMILY = Family("math", DEPTHS, draw, number_text, verify_number, solve, number_complaint)
