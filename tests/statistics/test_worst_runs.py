"""The worst quarter of runs, and how often its interval holds it."""

import numpy as np
import pytest

from evolora_core.engine.rng import stream
from evolora_core.statistics.worst_runs import worst_quarter, worst_quarter_interval


def test_a_quarter_is_rounded_up_and_taken_of_each_row() -> None:
    assert worst_quarter(np.array([0.5, 0.1, 0.9, 0.7])) == pytest.approx(0.1)
    assert worst_quarter(np.array([[5, 1, 3, 4, 2], [9, 9, 9, 9, 9]])) == pytest.approx([1.5, 9])


def test_runs_of_a_seed_are_drawn_together() -> None:
    runs = stream(0, 0, 0, "test").random(32)
    assert worst_quarter_interval(runs + 0.1, runs, stream(0, 0, 0, "pair")) == pytest.approx((0.1, 0.1))


def test_a_bound_is_never_the_extreme_of_too_few_resamples() -> None:
    """Two resamples would be all there is to an interval; as many are drawn as a bound needs."""
    runs, others = stream(0, 0, 0, "test").random((2, 32))
    asked = [worst_quarter_interval(runs, others, stream(0, 0, 0, "few"), count) for count in (2, 3)]
    assert asked[0] == asked[1] and asked[0][0] < worst_quarter(runs) - worst_quarter(others) < asked[0][1]


def test_intervals_hold_the_difference_about_as_often_as_they_say() -> None:
    """One arm fails in three of ten runs and the other never, 32 runs each: the worst quarter of many runs is known."""
    rng = stream(0, 0, 0, "coverage")

    def failing(runs: int) -> np.ndarray:
        result: np.ndarray = np.where(rng.random(runs) < 0.3, 0.42, 0.52) + 0.015 * rng.standard_normal(runs)
        return result

    def steady(runs: int) -> np.ndarray:
        result: np.ndarray = 0.51 + 0.015 * rng.standard_normal(runs)
        return result

    truth = np.mean([worst_quarter(steady(32)) - worst_quarter(failing(32)) for _ in range(20_000)])
    held = 0
    for number in range(400):
        lo, hi = worst_quarter_interval(steady(32), failing(32), stream(number, 0, 0, "interval"), 2000)
        held += lo <= truth <= hi
    assert 0.9 <= held / 400 <= 0.99
