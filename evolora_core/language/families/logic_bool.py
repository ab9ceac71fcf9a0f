"""`logic.bool`: the truth of an expression with NOT, AND, OR. Target: true or false.

Standard precedence: comparisons bind first, then NOT, then AND, then OR. Literals are TRUE, FALSE and comparisons of
two digits. short: 2 literals; medium: 3 without parentheses (so precedence decides); long: two pairs in parentheses,
which NOT may negate. The target is a fair coin, drawn before the literals, so operators and shape do not give it away.
"""

import re

import numpy as np

from evolora_core.language.families.base import DEPTHS, Family
from evolora_core.language.families.verdicts import boolean_complaint, boolean_of, verify_boolean

_LITERALS = {"short": 2, "medium": 3, "long": 4}
_NEGATED = 0.3
_WORDS = 0.3  # share of TRUE and FALSE among the literals
_TOKEN = re.compile(r"TRUE|FALSE|NOT|AND|OR|\d [<>] \d|[()]")


def draw(rng: np.random.Generator, depth: str) -> tuple[str, bool]:
    """(prompt, target)."""
    count = _LITERALS[depth]
    target = rng.random() < 0.5
    ops = (rng.random(count - 1) < 0.5).tolist()  # True for AND
    negated = (rng.random(2) < _NEGATED).tolist()
    while True:
        truths = (rng.random(count) < 0.5).tolist()
        if _value(truths, ops, negated) == target:
            break
    words = [_literal(rng, truth) for truth in truths]
    names = ["AND" if op else "OR" for op in ops]
    if depth == "long":
        pairs = [f"{'NOT ' * negated[i]}({words[2 * i]} {names[2 * i]} {words[2 * i + 1]})" for i in (0, 1)]
        text = f"{pairs[0]} {names[1]} {pairs[1]}"
    else:
        text = words[0] + "".join(f" {name} {word}" for name, word in zip(names, words[1:], strict=True))
    return f"True or False: {text}", target


def _value(truths: list[bool], ops: list[bool], negated: list[bool]) -> bool:
    if len(truths) == 4:
        left = _both(truths[0], ops[0], truths[1]) != negated[0]
        right = _both(truths[2], ops[2], truths[3]) != negated[1]
        return _both(left, ops[1], right)
    if len(truths) == 3 and not ops[0] and ops[1]:
        return truths[0] or (truths[1] and truths[2])
    value = truths[0]
    for op, truth in zip(ops, truths[1:], strict=True):
        value = _both(value, op, truth)
    return value


def _both(left: bool, conjunction: bool, right: bool) -> bool:
    return (left and right) if conjunction else (left or right)


def _literal(rng: np.random.Generator, truth: bool) -> str:
    """A literal of the wanted truth."""
    negated, word = rng.random() < _NEGATED, rng.random() < _WORDS
    plain = truth != negated
    if word:
        text = "TRUE" if plain else "FALSE"
    else:
        a, gap = int(rng.integers(10)), int(rng.integers(1, 10))
        b = (a + gap) % 10
        text = f"{a} {'<' if (a < b) == plain else '>'} {b}"
    return f"NOT {text}" if negated else text


def solve(prompt: str) -> str:
    """Evaluate the expression by recursive descent over the text."""
    tokens = _TOKEN.findall(prompt.partition(":")[2])
    value, end = _disjunction(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"{prompt!r}: unexpected {tokens[end]!r}")
    return str(value)


def _disjunction(tokens: list[str], at: int) -> tuple[bool, int]:
    value, at = _conjunction(tokens, at)
    while at < len(tokens) and tokens[at] == "OR":
        other, at = _conjunction(tokens, at + 1)
        value = value or other
    return value, at


def _conjunction(tokens: list[str], at: int) -> tuple[bool, int]:
    value, at = _negation(tokens, at)
    while at < len(tokens) and tokens[at] == "AND":
        other, at = _negation(tokens, at + 1)
        value = value and other
    return value, at


def _negation(tokens: list[str], at: int) -> tuple[bool, int]:
    token = tokens[at]
    if token == "NOT":
        value, at = _negation(tokens, at + 1)
        return not value, at
    if token == "(":
        value, at = _disjunction(tokens, at + 1)
        return value, at + 1
    if token in ("TRUE", "FALSE"):
        return token == "TRUE", at + 1
    return (token[0] < token[4]) == (token[2] == "<"), at + 1


FAMILY = Family(
    "logic.bool",
    DEPTHS,
    draw,
    lambda target: str(boolean_of(target)),
    verify_boolean,
    solve,
    boolean_complaint,
    chance=0.5,
)
