from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evolora_core.searches.adapters.ecology.phases.paired_test import PairedTest, design_test, superiority_p, worst_drop


def verdict_of(design: Any, child: Any, references: Any) -> Any:
    """Run a trial over outcomes that are all known beforehand."""
    trial = PairedTest(design)
    for index, size in enumerate(design.sizes):
        still_open = {n: reference[:size] for n, reference in enumerate(references) if n not in trial.beaten}
        verdict = trial.look(index, child[:size], still_open)
        if verdict.accepted is not None:
            return verdict
    raise AssertionError("undecided after the last look")


@given(st.floats(0.01, 0.2), st.floats(0.6, 0.95), st.floats(0.02, 0.3), st.integers(1, 6), st.floats(0.1, 0.5))
def test_the_plan_spends_alpha_and_no_more(alpha: Any, power: Any, uplift: Any, looks: Any, discordance: Any) -> None:
    design = design_test(alpha, power, uplift, looks, discordance)
    assert sum(design.levels) == pytest.approx(alpha) and min(design.levels) > 0
    assert list(design.sizes) == sorted(design.sizes) and len(design.sizes) == looks


def test_false_accepts_stay_at_the_nominal_level() -> None:
    """A child that is as good as its parents: with equal arms, and with weak references (the hardest null)."""
    rng = np.random.default_rng(0)
    design = design_test(0.05, 0.8, 0.05, 4, 0.3)
    trials = 4000
    for rates in ((0.3, 0.3, 0.3, 0.3), (0.3, 0.3, 0.05, 0.05)):
        accepted = 0
        for _ in range(trials):
            arms = [rng.random(design.sizes[-1]) < rate for rate in rates]
            accepted += bool(verdict_of(design, arms[0], arms[1:]).accepted)
        assert stats.binomtest(accepted, trials, 0.05, alternative="greater").pvalue > 1e-3, accepted / trials


@pytest.mark.parametrize("n", range(1, 65, 2))
def test_a_lead_of_one_has_a_p_of_exactly_one_half(n: int) -> None:
    """As `contest.alpha: 0.5` asks for; a rounded p is above one half for nine items, and for others."""
    right = np.arange(n) <= n // 2
    assert superiority_p(right, ~right) == 0.5


def test_a_gain_of_the_planned_size_is_found_with_the_planned_power() -> None:
    rng = np.random.default_rng(1)
    design = design_test(0.05, 0.8, 0.1, 4, 0.3)
    found = 0
    for _ in range(1000):
        # Discordance 0.3 as planned: 20 % only the child right, 10 % only the parent right.
        kind = rng.random(design.sizes[-1])
        child, parent = (kind < 0.2) | (kind > 0.7), ((kind >= 0.2) & (kind < 0.3)) | (kind > 0.7)
        found += bool(verdict_of(design, child, [parent]).accepted)
    assert found / 1000 > 0.76


def test_a_child_that_is_not_ahead_ends_the_trial_early() -> None:
    design = design_test(0.05, 0.8, 0.1, 4, 0.3)
    same = np.ones(design.sizes[-1], dtype=bool)
    verdict = verdict_of(design, same, [same])
    assert verdict.accepted is False and verdict.reason == "not ahead" and verdict.p == 1.0
    trial = PairedTest(design)
    worse = np.arange(design.sizes[0]) % 2 == 0
    assert trial.look(0, worse, {0: np.ones(design.sizes[0], dtype=bool)}).accepted is False


def test_what_is_beaten_need_not_answer_again() -> None:
    """A weak reference is beaten at the first look and stays so; the trial goes on against the other alone."""
    design = design_test(0.05, 0.8, 0.1, 4, 0.3)
    trial = PairedTest(design)
    child = np.arange(design.sizes[1]) % 2 == 0
    close = child & (np.arange(design.sizes[1]) != 0)
    first = slice(design.sizes[0])
    verdict = trial.look(0, child[first], {0: close[first], 1: np.zeros(design.sizes[0], dtype=bool)})
    assert verdict.accepted is None and set(trial.beaten) == {1}
    verdict = trial.look(1, child, {0: close})
    assert verdict.accepted is None and set(trial.beaten) == {1} and verdict.p == 0.5


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_p_is_the_exact_sign_test(pairs: Any) -> None:
    child, reference = (np.array(side) for side in zip(*pairs, strict=True))
    wins, losses = int((child & ~reference).sum()), int((~child & reference).sum())
    expected = stats.binomtest(wins, wins + losses, alternative="greater").pvalue if wins + losses else 1.0
    assert superiority_p(child, reference) == pytest.approx(expected)


def test_p_of_many_items_is_exact_and_takes_no_time() -> None:
    child = np.arange(60_000) % 2 == 0
    p = superiority_p(np.append(child, [True] * 200), np.append(~child, [False] * 200))
    assert p == pytest.approx(stats.binomtest(30_200, 60_200, alternative="greater").pvalue)


def test_worst_drop_covers_the_true_loss() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(1000):
        child, reference = rng.random(150) < 0.5, rng.random(150) < 0.6
        covered += worst_drop(child, reference, 0.05) >= 0.1
    assert covered / 1000 > 0.93
