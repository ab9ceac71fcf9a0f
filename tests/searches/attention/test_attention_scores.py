"""The score cannot be had by making small models worse; guards, ranks and the winner's curse."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.scaling.curse import estimate_curse, excess, expected_best, must_measure_again
from evolora_core.searches.attention.scaling.intervals import Estimate
from evolora_core.searches.attention.scaling.law import fit_law
from evolora_core.searches.attention.scaling.losses import Losses
from evolora_core.searches.attention.scaling.predict import Prediction
from evolora_core.searches.attention.scaling.ranks import spearman
from evolora_core.searches.attention.scaling.score import Scored, score
from evolora_core.searches.attention.scaling.simulation import draw_world

# The losses of the prior work's A5, and its program that is nowhere better.
BASE = np.array([3.40, 3.20, 3.10, 2.95])
HANDICAP = np.array([0.25, 0.08, 0.02, 0.0])
N = np.array([6600.0, 25000.0, 85000.0, 200000.0])
SAME_COST = dict.fromkeys("1234", 1.0)


def losses_of(**programs: np.ndarray) -> Losses:
    """Two seeds of the baseline and of programs with a given difference to it."""
    means = np.stack([BASE, *(BASE + gap for gap in programs.values())])
    values = means[:, :, None] + np.array([-0.004, 0.004])
    return Losses(["base", *programs], list("1234"), [0, 1], np.tile(N, (len(means), 1)), values)


def scored(losses: Losses, program: str, flops: dict[str, float] = SAME_COST) -> Scored:
    return score(losses, program, "base", fit_law(losses, "base", []), flops)


def test_the_slope_prefers_a_handicapped_program_and_the_score_does_not() -> None:
    losses = losses_of(handicapped=HANDICAP, honest=np.array([0.0, -0.005, -0.01, -0.015]))
    worse, honest, base = (scored(losses, name) for name in ("handicapped", "honest", "base"))
    assert worse.straight is not None and honest.straight is not None and base.straight is not None
    assert -base.straight.slope == pytest.approx(0.126, abs=2e-3)
    assert -worse.straight.slope == pytest.approx(0.199, abs=2e-3)
    assert -worse.straight.slope > -honest.straight.slope > -base.straight.slope
    chosen = max((own for own in (worse, honest, base) if own.passed), key=lambda own: own.score or 0.0)
    assert chosen.program == "honest" and worse.guards == ("smallest",) and base.score == 0
    assert honest.score is not None and 0.01 < honest.score < 0.03


def test_what_a_handicap_within_the_bound_can_win_is_small() -> None:
    losses = losses_of(handicapped=np.array([0.0199, 0, 0, 0]))
    found = scored(losses, "handicapped")
    assert found.passed and found.score is not None and 0 < found.score < 0.01


def test_guards() -> None:
    losses = losses_of(a=np.zeros(4))
    assert scored(losses, "a").passed
    assert scored(losses, "a", {**SAME_COST, "2": 3.01}).guards == ("flops",)
    fat = replace(losses, n=losses.n * np.array([[1.0], [1.11]]))
    assert scored(fat, "a").guards == ("parameters",)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_not_finite_has_no_score(broken: float) -> None:
    losses = losses_of(a=np.array([0.0, 0, 0, broken if np.isinf(broken) else 0]))
    if np.isnan(broken):
        losses.values[1] = broken
    found = scored(losses, "a")
    assert found.score is None and found.interval is None and found.guards == ("finite",)


def test_two_sizes_and_a_seed_have_a_score_without_an_interval() -> None:
    losses = draw_world("power", stream(1, 0, 0, "scores"), seeds=1).losses
    law = fit_law(losses, "baseline", ["p1", "p2"])
    first = replace(losses, values=losses.values.copy())
    first.values[1, 2:] = np.nan
    found = score(first, "p0", "baseline", law, {"a": 1.0, "b": 1.0})
    assert found.score is not None and np.isfinite(found.score) and found.interval is None
    whole = score(losses, "p0", "baseline", law, dict.fromkeys("abcd", 1.0))
    assert whole.interval is not None and whole.score is not None
    assert whole.interval[0] < whole.score < whole.interval[1]
    assert whole.curve is not None and list(whole.curve) == list("abcd")


def test_ranks_are_those_of_scipy() -> None:
    rng = stream(2, 0, 0, "scores")
    left = np.round(rng.normal(size=30), 1)  # with ties
    right = left + rng.normal(size=30)
    found = spearman(np.append(left, np.nan), np.append(right, 1.0))
    assert found.programs == 30 and found.value == pytest.approx(stats.spearmanr(left, right).statistic)
    assert found.lo < found.value < found.hi
    assert (spearman(left[:3], right[:3]).lo, spearman(left[:3], right[:3]).hi) == (-1, 1)
    assert np.isnan(spearman(np.ones(5), right[:5]).value)
    alike = spearman(np.arange(5.0), np.arange(5.0))
    assert alike.value == 1 == alike.hi and alike.lo < 0  # five programs say little
    assert spearman(np.arange(40.0), np.arange(40.0)).lo > 0.99
    assert spearman(np.arange(5.0), -np.arange(5.0)).hi == pytest.approx(-alike.lo)


def test_the_interval_of_a_rank_correlation_holds() -> None:
    rng = stream(3, 0, 0, "scores")
    true = 6 / np.pi * np.arcsin(0.7 / 2)  # Spearman's of normal numbers whose correlation is .7
    left = rng.normal(size=(500, 24))
    right = 0.7 * left + np.sqrt(1 - 0.49) * rng.normal(size=(500, 24))
    found = [spearman(*pair) for pair in zip(left, right, strict=True)]
    assert 0.92 <= np.mean([own.lo <= true <= own.hi for own in found]) <= 0.98


def test_the_best_of_many_looks_better_than_it_is() -> None:
    assert expected_best(1) == pytest.approx(0, abs=1e-9)
    assert expected_best(2) == pytest.approx(1 / np.sqrt(np.pi))
    assert expected_best(3) == pytest.approx(1.5 / np.sqrt(np.pi))
    assert excess(150, 0.01, 0.01) == pytest.approx(0.019, abs=5e-4)  # the prior work's figures
    assert excess(500, 0.01, 0.005) == pytest.approx(0.027, abs=5e-4)
    rng = stream(4, 0, 0, "scores")
    true = rng.normal(0, 0.02, (2000, 35))
    seen = true + rng.normal(0, 0.01, true.shape)
    best = seen.argmax(axis=1)[:, None]
    looks = (np.take_along_axis(seen, best, 1) - np.take_along_axis(true, best, 1)).mean()
    assert excess(35, 0.01, 0.02) == pytest.approx(looks, abs=6e-4)


def test_the_curse_is_estimated_from_a_placebo() -> None:
    rng = stream(5, 0, 0, "scores")
    found = estimate_curse(rng.normal(0, np.hypot(0.01, 0.02), 4000), rng.normal(0, 0.01, 4000))
    assert found.noise == pytest.approx(0.01, rel=0.05) and found.spread == pytest.approx(0.02, rel=0.05)
    same = estimate_curse(np.array([0.01, np.nan, 0.011]), np.array([-0.1, 0.1]))
    assert same.programs == 2 and same.spread == 0 and same.excess == pytest.approx(same.noise * expected_best(2))
    with pytest.raises(ValueError, match="1 placebos"):
        estimate_curse(np.zeros(3), np.zeros(1))


@pytest.mark.parametrize(
    ("lead", "se", "again"),
    [(0.01, 0.006, True), (0.01, 0.004, False), (-0.01, 0.02, False), (0.01, float("nan"), True)],
)
def test_an_incumbent_that_is_hardly_beaten_is_measured_again(lead: float, se: float, again: bool) -> None:
    nan = float("nan")
    assert must_measure_again(Prediction("power", 6e5, Estimate(lead, se, 5, nan, nan), nan, nan)) is again
