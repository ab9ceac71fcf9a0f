"""A calculator for the arithmetic in prompts: integers, + - *, parentheses, the usual precedence. Used by solvers
alone."""

import re

_TOKEN = re.compile(r"\d+|[-+*()]")


def evaluate(text: str) -> int:
    """The value of an arithmetic expression, by recursive descent."""
    tokens = _TOKEN.findall(text)
    value, end = _sum(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"{text!r}: unexpected {tokens[end]!r}")
    return value


def _sum(tokens: list[str], at: int) -> tuple[int, int]:
    value, at = _product(tokens, at)
    while at < len(tokens) and tokens[at] in "+-":
        sign = 1 if tokens[at] == "+" else -1
        term, at = _product(tokens, at + 1)
        value += sign * term
    return value, at


def _product(tokens: list[str], at: int) -> tuple[int, int]:
    value, at = _factor(tokens, at)
    while at < len(tokens) and tokens[at] == "*":
        factor, at = _factor(tokens, at + 1)
        value *= factor
    return value, at


def _factor(tokens: list[str], at: int) -> tuple[int, int]:
    if tokens[at] != "(":
        return int(tokens[at]), at + 1
    value, at = _sum(tokens, at + 1)
    if tokens[at] != ")":
        raise ValueError(f"expected ')' and found {tokens[at]!r}")
    return value, at + 1
