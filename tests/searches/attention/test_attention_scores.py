"""The score cannot be had by making small models worse; guards and ranks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from evolora_core.engine.rng import stream
from evolora_core.errors import StageError
from evolora_core.searches.attention.scaling.fits import straight
from evolora_core.searches.attention.scaling.law import fit_law
from evolora_core.searches.attention.scaling.losses import Losses, star
from evolora_core.searches.attention.scaling.predict import predict_gain
from evolora_core.searches.attention.scaling.ranks import spearman
from evolora_core.searches.attention.scaling.score import Scored, score

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
    return score(losses, program, "base", flops)


def test_the_slope_prefers_a_handicapped_program_and_the_score_does_not() -> None:
    losses = losses_of(handicapped=HANDICAP, honest=np.array([0.0, -0.005, -0.01, -0.015]))
    worse, honest, base = (scored(losses, name) for name in ("handicapped", "honest", "base"))
    slopes = {name: -straight(losses, name).slope for name in ("handicapped", "honest", "base")}
    assert slopes["base"] == pytest.approx(0.126, abs=2e-3)
    assert slopes["handicapped"] == pytest.approx(0.199, abs=2e-3)
    assert slopes["handicapped"] > slopes["honest"] > slopes["base"]
    chosen = max((own for own in (worse, honest, base) if own.passed), key=lambda own: own.score or 0.0)
    assert chosen is honest and worse.passed and base.score == worse.score == 0
    assert honest.score == pytest.approx(0.015)


def test_a_handicap_at_a_small_size_wins_a_prediction_and_no_score() -> None:
    losses = losses_of(handicapped=HANDICAP)
    gain = predict_gain(losses, "handicapped", "base", star(losses, "base"), fit_law(losses, "base", []))
    assert gain.value > 0.02 and scored(losses, "handicapped").score == 0


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


def test_a_score_is_the_gain_at_the_largest_size_with_its_interval() -> None:
    losses = losses_of(a=np.array([0.0, 0.0, 0.01, -0.02]))
    losses.values[1, 3] += [0.003, -0.003]
    found = scored(losses, "a")
    assert found.score == pytest.approx(0.02) and found.interval is not None and found.curve is not None
    half = 12.7062 * 0.003  # two seeds: the standard error of the mean is half of their distance
    assert found.interval == pytest.approx((0.02 - half, 0.02 + half), abs=1e-5)
    assert list(found.curve) == list("1234") and found.curve["3"].value == pytest.approx(0.01)
    one = replace(losses, seeds=[0], values=losses.values[:, :, :1])
    assert scored(one, "a").score == pytest.approx(0.017) and scored(one, "a").interval is None


def test_what_was_not_measured_at_the_largest_size_has_no_score() -> None:
    losses = losses_of(a=np.zeros(4))
    losses.values[1, 3] = np.nan
    with pytest.raises(StageError, match="a was not measured at 4, the largest size of base"):
        scored(losses, "a")


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
