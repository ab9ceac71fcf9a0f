"""A verifier that errs."""

from dataclasses import replace

import numpy as np
import pytest

from evolora_core.ecology.verdict import observed
from evolora_core.evaluation.grading import Outcome
from evolora_core.families import Item, grade


def outcome(number: int, answer: str) -> Outcome:
    item = Item(f"Compute {number} + 1.", number + 1, "math", "short", f"math:short:{number}")
    return Outcome(item, 0, answer, grade(item, answer), 5, 2, 10, 10, [1], True, -0.5)


@pytest.mark.parametrize("error", [0.05, 0.3])
def test_it_errs_as_often_as_it_should_in_both_directions(error):
    given = [outcome(i, str(i + 1 if i % 2 else i + 2)) for i in range(4000)]
    seen = observed(given, error, seed=3)
    flipped = np.array([a.grade.correct != b.grade.correct for a, b in zip(given, seen, strict=True)])
    for half in (flipped[::2], flipped[1::2]):
        assert abs(half.mean() - error) < 4 * np.sqrt(error * (1 - error) / len(half))
    assert all(b.grade.reason == "verifier error" for b, own in zip(seen, flipped, strict=True) if own)
    assert observed(given, 0.0, seed=3) == given


def test_it_errs_again_about_the_same_answer_whoever_gives_it():
    given = [outcome(i, str(i + 1)) for i in range(200)]
    others = [replace(one, slot=7, logprob=-2.0) for one in given]
    verdicts, again = ([o.grade.correct for o in observed(own, 0.3, seed=1)] for own in (given, list(reversed(others))))
    assert verdicts == again[::-1]
    assert verdicts != [o.grade.correct for o in observed(given, 0.3, seed=2)]
