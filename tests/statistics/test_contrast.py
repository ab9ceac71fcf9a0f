"""Two means over the same seeds: their difference, and their ratio where it has an interval."""

import numpy as np
import pytest

from evolora_core.engine.rng import stream
from evolora_core.statistics.inference import contrast, hierarchical_bootstrap


def draws() -> np.random.Generator:
    return stream(0, 0, 0, "test")


def test_both_intervals_hold_their_values_where_nothing_scatters() -> None:
    found = contrast([np.full(5, 0.4), np.full(7, 0.4)], [np.full(3, 0.1), np.full(4, 0.1)], draws(), 200)
    assert found.difference == pytest.approx((0.3, 0.3)) and found.ratio == pytest.approx((0.25, 0.25))
    assert contrast([np.ones(3)], [-np.ones(3)], draws(), 200).ratio == pytest.approx((-1, -1))


def test_seeds_are_drawn_for_both_together() -> None:
    first = [np.full(4, value) for value in (0.2, 0.4, 0.8)]
    second = [values / 2 for values in first]
    found = contrast(first, second, draws(), 2000)
    assert found.ratio == pytest.approx((0.5, 0.5))  # in every resample, whichever seeds it has
    assert found.difference == pytest.approx(hierarchical_bootstrap(second, draws(), 2000))


@pytest.mark.parametrize("gain", [0.0, -0.5, 0.02])
def test_a_first_mean_that_may_be_none_has_no_ratio(gain: float) -> None:
    rng = draws()
    first = [rng.choice([-1.0, 1.0], 60, p=[0.5 - gain / 2, 0.5 + gain / 2]) for _ in range(6)]
    found = contrast(first, [np.full(60, 0.1)] * 6, draws(), 2000)
    assert found.ratio is None and np.isfinite(found.difference).all()


def test_seeds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 1 seeds do not pair"):
        contrast([np.ones(2), np.ones(2)], [np.ones(2)], draws(), 200)
    with pytest.raises(ValueError, match="at least one of every seed"):
        contrast([np.ones(2)], [np.ones(0)], draws(), 200)


@pytest.mark.slow
def test_a_ratio_is_covered_as_often_as_an_interval_of_95_percent_has_to() -> None:
    """Gains of 8 and 4 points that differ between seeds, eight seeds of 400 items, 400 suites."""
    covered = 0
    for suite in range(400):
        rng = stream(suite, 0, 0, "coverage")
        level = rng.normal(0, 0.015, 8)
        first, second = (
            [rng.choice([-1.0, 0.0, 1.0], 400, p=[0.05, 0.9 - g, 0.05 + g]) for g in mean + level]
            for mean in (0.08, 0.04)
        )
        found = contrast(first, second, stream(suite, 0, 0, "draws"), 500)
        if found.ratio is None:
            continue
        covered += found.ratio[0] <= 0.5 <= found.ratio[1]
    assert covered >= 0.94 * 400
