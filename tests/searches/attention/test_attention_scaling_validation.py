"""Paired tests over fresh seeds: oracles of scipy, families, and placebos that must not win."""

import numpy as np
import pytest
from scipy import optimize, stats

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.scaling.validation import cohens_d, compare_losses, decide_family, seeds_needed


def by_seed(values: np.ndarray) -> dict[int, np.ndarray]:
    return dict(enumerate(values))


def test_the_effect_has_the_interval_of_the_noncentral_t() -> None:
    differences = stream(1, 0, 0, "validation").normal(0.6, 1, 10)
    effect, lo, hi = cohens_d(differences)
    t = stats.ttest_1samp(differences, 0).statistic
    assert effect == pytest.approx(t / np.sqrt(10))
    for bound, share in ((lo, 0.975), (hi, 0.025)):
        root = optimize.brentq(lambda away, share=share: stats.nct.cdf(t, 9, away) - share, -10, 20)
        assert bound == pytest.approx(root / np.sqrt(10), abs=1e-6)


def test_a_large_effect_and_none_have_intervals_too() -> None:
    effect, lo, hi = cohens_d(1 + 0.001 * np.arange(8.0))
    assert 0 < lo < effect < hi
    below = cohens_d(-1 - 0.001 * np.arange(8.0))
    assert np.allclose(below, [-effect, -hi, -lo], rtol=1e-3)
    assert np.isnan(cohens_d(np.ones(4))).all() and np.isnan(cohens_d(np.array([1.0]))).all()


def test_a_clear_gain_is_shown_with_enough_seeds_alone() -> None:
    rng = stream(2, 0, 0, "validation")
    base = rng.normal(3, 0.05, 10)
    better = base - 0.03 + rng.normal(0, 0.005, 10)
    found = compare_losses("new", "base", by_seed(better), by_seed(base))
    assert found.p == pytest.approx(2 / 2**10) and 0 < found.lo < found.gain < found.hi and found.effect > 1
    other = stats.ttest_rel(base, better).confidence_interval()
    assert np.allclose([found.lo, found.hi], [other.low, other.high])
    (decided,) = decide_family([found])
    assert decided.verdict == "new" and decided.note == ""
    (turned,) = decide_family([compare_losses("base", "new", by_seed(base), by_seed(better))])
    assert turned.verdict == "new" and turned.gain == -found.gain
    five = compare_losses("new", "base", by_seed(better[:5]), by_seed(base[:5]))
    (open_still,) = decide_family([five])
    assert open_still.verdict == "undecided" and open_still.note == "needs 6 seeds, has 5"
    four = compare_losses("new", "base", by_seed(better[:4]), by_seed(base[:4]))
    assert decide_family([four])[0].note == "these runs only"


def test_holm_is_over_the_whole_family() -> None:
    rng = stream(3, 0, 0, "validation")
    base = rng.normal(3, 0.05, 8)
    family = [compare_losses(f"p{k}", "base", by_seed(base - 0.05), by_seed(base)) for k in range(10)]
    decided = decide_family(family)
    assert all(own.p == pytest.approx(1 / 128) and own.p_holm == pytest.approx(10 / 128) for own in decided)
    assert {own.verdict for own in decided} == {"undecided"}
    assert {own.note for own in decided} == {"needs 9 seeds, has 8"}
    assert [seeds_needed(size) for size in (1, 2, 6, 10)] == [6, 7, 8, 9]


def test_seeds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\] and \[0, 1, 2\] do not pair"):
        compare_losses("a", "b", by_seed(np.ones(2)), by_seed(np.ones(3)))


def test_texts_widen_the_interval_and_leave_the_test_over_seeds() -> None:
    rng = stream(4, 0, 0, "validation")
    hard = rng.normal(3, 1, 200)
    base = hard + rng.normal(0, 0.3, (8, 200))
    new = base - 0.1 - rng.normal(0, 0.8, 200) + rng.normal(0, 0.01, (8, 1))  # helps some texts, harms others
    found = compare_losses("new", "base", by_seed(new), by_seed(base))
    means = compare_losses("new", "base", by_seed(new.mean(axis=1)), by_seed(base.mean(axis=1)))
    assert found.p == means.p and found.effect == pytest.approx(means.effect)
    assert found.hi - found.lo > 3 * (means.hi - means.lo)


def test_identical_programs_seldom_differ() -> None:
    rng = stream(5, 0, 0, "validation")
    wrong = 0
    for _ in range(400):
        losses = rng.normal(3, 0.01, (3, 8))
        family = [compare_losses(f"p{k}", "base", by_seed(losses[k]), by_seed(losses[2])) for k in range(2)]
        wrong += any(own.verdict != "undecided" for own in decide_family(family))
    assert wrong <= 28  # 5 % of 400 are 20, with a standard deviation of 4
