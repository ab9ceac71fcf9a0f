"""Exact values, invariants, and simulations of what the verdict rule and the intervals promise."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evolora_core.engine.rng import stream
from evolora_core.errors import StageError
from evolora_core.searches import base
from evolora_core.statistics import inference as statistics

RESAMPLES = 1000  # enough for a simulation
outcomes = st.lists(st.integers(0, 1), min_size=1, max_size=60)


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_scipy_and_contains_the_share(case: tuple[int, int]) -> None:
    correct, n = case
    lo, hi = statistics.wilson(correct, n)
    reference = stats.binomtest(correct, n).proportion_ci(method="wilson")
    assert (lo, hi) == pytest.approx((reference.low, reference.high), abs=1e-12)
    assert 0 <= lo <= correct / n <= hi <= 1


def test_wilson_refuses_impossible_counts() -> None:
    assert statistics.wilson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="5 correct of 4"):
        statistics.wilson(5, 4)


@given(st.lists(st.floats(-1, 1, allow_nan=False), min_size=1, max_size=9))
def test_sign_flip_counts_every_pattern(differences: list[float]) -> None:
    d = np.array(differences)
    flips = np.array(list(itertools.product([1, -1], repeat=d.size))) @ d
    expected = np.mean(np.abs(flips) >= abs(d.sum()) - 1e-12 * np.abs(d).sum())
    assert statistics.sign_flip_p(differences) == pytest.approx(expected)


def test_smallest_sign_flip_p_decides_how_many_seeds_a_verdict_needs() -> None:
    assert [statistics.sign_flip_p([0.1] * seeds) for seeds in (5, 6, 8)] == [0.0625, 0.03125, 0.0078125]
    assert statistics.sign_flip_p([0.0, 0.0]) == 1.0
    assert statistics.sign_flip_p([0.01] * 40) == pytest.approx(2.0**-39)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=80))
def test_mcnemar_is_the_binomial_test_on_discordant_pairs(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    expected = 1.0 if only_a + only_b == 0 else stats.binomtest(only_a, only_a + only_b).pvalue
    assert statistics.mcnemar_exact(a, b) == pytest.approx(expected)
    assert statistics.mcnemar_exact(b, a) == statistics.mcnemar_exact(a, b)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_between_raw_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    adjusted = statistics.holm(p)
    assert all(raw <= out <= min(1.0, len(p) * raw) + 1e-12 for raw, out in zip(p, adjusted, strict=True))
    assert [adjusted[i] for i in np.argsort(p, kind="stable")] == sorted(adjusted)


def test_holm_textbook_values() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@settings(max_examples=30)
@given(st.lists(outcomes, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_bootstrap_ignores_the_order_of_items_and_brackets_the_mean(seeds: list[list[int]], random: Any) -> None:
    shuffled = [random.sample(items, len(items)) for items in seeds]
    lo, hi = statistics.hierarchical_bootstrap([np.array(s) for s in seeds], stream(1, 0, 0, "test"), resamples=400)
    again = statistics.hierarchical_bootstrap([np.array(s) for s in shuffled], stream(1, 0, 0, "test"), resamples=400)
    assert (lo, hi) == again
    assert min(map(min, seeds)) <= lo <= hi <= max(map(max, seeds))


@settings(max_examples=30)
@given(st.lists(st.tuples(outcomes, st.integers(0, 99)), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_crossed_bootstrap_ignores_the_order_of_items_and_brackets_the_mean(
    seeds: list[tuple[list[int], int]], random: Any
) -> None:
    """Seeds share some of their items, each from another place on."""
    drawn = []
    for values, first in seeds:
        named = list(enumerate(values, first))
        drawn.append((named, random.sample(named, len(named))))
    (lo, hi), again = (
        statistics.hierarchical_bootstrap(
            [np.array([value for _, value in own[way]]) for own in drawn],
            stream(1, 0, 0, "test"),
            resamples=400,
            items=[np.array([name for name, _ in own[way]]) for own in drawn],
        )
        for way in (0, 1)
    )
    assert (lo, hi) == again
    assert min(min(values) for values, _ in seeds) <= lo <= hi <= max(max(values) for values, _ in seeds)


def test_items_that_all_seeds_share_count_once() -> None:
    """Eight seeds with the same answers to 200 items are as good as one. Where each has items of its own, crossing them
    is wider than it need be, by less than a half.
    """
    values = stream(3, 0, 0, "test").random(200) < 0.3
    names, seeds = np.arange(200), 8
    width = {}
    for name, items in (("shared", [names] * seeds), ("own", [names + 200 * seed for seed in range(seeds)])):
        lo, hi = statistics.hierarchical_bootstrap([values] * seeds, stream(1, 0, 0, "test"), items=items)
        width[name] = hi - lo
    lo, hi = statistics.hierarchical_bootstrap([values] * seeds, stream(1, 0, 0, "test"))
    assert hi - lo < width["own"] < 1.5 * (hi - lo)
    assert width["shared"] == pytest.approx(np.sqrt(seeds) * (hi - lo), rel=0.03)
    low, high = statistics.wilson(int(values.sum()), 200)
    lo, hi = statistics.accuracy_interval([values] * seeds, stream(1, 0, 0, "test"), items=[names] * seeds)
    assert lo <= low and high <= hi


def test_a_seed_of_which_no_item_was_drawn_keeps_its_mean() -> None:
    """Two items a seed, one of them another's too: an empty draw must not count as wrong answers."""
    items = [np.array([seed, seed + 1]) for seed in range(8)]
    assert statistics.hierarchical_bootstrap([np.ones(2)] * 8, stream(1, 0, 0, "test"), items=items) == (1.0, 1.0)


def test_names_of_items_that_seeds_share_decide_nothing() -> None:
    draw = stream(4, 0, 0, "test")
    items = [draw.permutation(60)[:40] for _ in range(6)]
    values = [(draw.random(60) < 0.5)[own] for own in items]
    other = draw.permutation(60)
    first, second = (
        statistics.hierarchical_bootstrap(values, stream(1, 0, 0, "test"), items=named)
        for named in (items, [other[own] for own in items])
    )
    assert first == second


def test_accuracy_interval_keeps_a_width_where_every_answer_is_right() -> None:
    lo, hi = statistics.accuracy_interval([np.ones(200)] * 6, stream(1, 0, 0, "test"))
    assert hi == 1.0 and lo == pytest.approx(statistics.wilson(1200, 1200)[0])


def test_the_name_that_no_condition_may_have_is_the_verdict_of_none() -> None:
    assert base.UNDECIDED == statistics.UNDECIDED


def test_non_inferiority_needs_the_whole_interval_above_the_margin() -> None:
    def lowest(lo: float, seeds: int = 8) -> statistics.Comparison:
        return statistics.Comparison("holdout_id", "a", "b", 100, seeds, 0.0, lo, 0.1, 1.0, 1.0, ())

    assert statistics.non_inferior(lowest(-0.019), 0.02) and not statistics.non_inferior(lowest(-0.02), 0.02)
    assert not statistics.non_inferior(lowest(-0.019, seeds=5), 0.02)
    assert [[statistics.can_show(seeds, margins) for margins in (1, 2, 3, 4, 6)] for seeds in (5, 6, 7, 8)] == [
        [False] * 5,
        [True, *[False] * 4],
        [True] * 3 + [False] * 2,
        [True] * 5,
    ]
    with pytest.raises(ValueError, match="positive"):
        statistics.non_inferior(lowest(0.1), 0.0)


def _paired(
    rng: np.random.Generator, gains: np.ndarray, items: int
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Outcomes of two conditions whose accuracies differ by gains[seed], correlated as shared items make them."""
    a, b = {}, {}
    for seed, gain in enumerate(gains):
        split = rng.multinomial(items, np.clip([0.1 + gain / 2, 0.1 - gain / 2, 0.5, 0.3], 0, 1) / 1.0)
        order = rng.permutation(np.repeat([0, 1, 2, 3], split))
        a[seed], b[seed] = np.isin(order, [0, 2]).astype(int), np.isin(order, [1, 2]).astype(int)
    return a, b


def _family(
    rng: np.random.Generator, gains: np.ndarray, seeds: int, items: int, spread: float
) -> list[statistics.Comparison]:
    """One comparison for each mean gain; seeds scatter about it by `spread`."""
    compared = []
    for k, gain in enumerate(gains):
        a, b = _paired(rng, np.clip(rng.normal(gain, spread, seeds), -0.19, 0.19), items)
        compared.append(statistics.compare(f"split{k}", "a", "b", a, b, rng, RESAMPLES))
    return statistics.decide(compared)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "spread"), [(8, 0.0), (8, 0.03), (3, 0.0), (1, 0.0)])
def test_family_wise_error_of_the_verdict_stays_nominal(seeds: int, spread: float) -> None:
    rng = stream(7, seeds, int(spread * 100), "null")
    families = 150
    wrong = sum(
        any(c.verdict != "undecided" for c in _family(rng, np.zeros(4), seeds, 200, spread)) for _ in range(families)
    )
    assert wrong <= stats.binom.ppf(0.999, families, statistics.ALPHA)


def test_a_true_gain_gets_its_verdict() -> None:
    rng = stream(8, 0, 0, "power")
    found = [_family(rng, np.array([0.08, 0.08, 0.0, 0.0]), 8, 500, 0.02) for _ in range(40)]
    assert np.mean([f[0].verdict == "a" for f in found]) > 0.9
    assert not any(f[0].verdict == "b" for f in found)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "items", "spread"), [(5, 2000, 0.03), (8, 2000, 0.03), (8, 200, 0.0)])
def test_the_interval_covers_the_true_gain_at_least_as_often_as_it_says(seeds: int, items: int, spread: float) -> None:
    rng = stream(9, seeds, items, "coverage")
    trials, covered = 200, 0
    for _ in range(trials):
        a, b = _paired(rng, np.clip(rng.normal(0.05, spread, seeds), -0.19, 0.19), items)
        c = statistics.compare("split", "a", "b", a, b, rng, RESAMPLES)
        covered += c.lo <= 0.05 <= c.hi
    assert covered >= stats.binom.ppf(0.01, trials, 0.95)


def test_few_seeds_decide_only_when_each_agrees_by_itself() -> None:
    rng = stream(3, 0, 0, "few")
    clear, _ = _family(rng, np.array([0.15, 0.0]), 3, 1000, 0.0)
    assert (clear.verdict, clear.note) == ("a", "these runs only")
    a, b = _paired(rng, np.array([0.15, 0.15, -0.15]), 1000)
    mixed = statistics.decide([statistics.compare("s", "a", "b", a, b, rng)])[0]
    assert (mixed.verdict, mixed.note) == ("undecided", "these runs only")
    a, b = _paired(rng, np.array([0.15, 0.15, 0.0]), 1000)
    assert statistics.decide([statistics.compare("s", "a", "b", a, b, rng)])[0].verdict == "undecided"


def test_the_test_of_one_seed_is_adjusted_for_the_whole_family() -> None:
    rng = stream(7, 0, 0, "one")
    a, b = np.zeros(100, dtype=int), np.zeros(100, dtype=int)
    a[:9], b[9:11] = 1, 1  # nine for a, two for b: p = 0.065; ten to two is 0.039
    a[11] = 1
    one = statistics.compare("s", "a", "b", {0: a}, {0: b}, rng)
    assert 0.03 < one.seed_tests[0][1] < 0.05
    assert [statistics.verdict(one, family) for family in (1, 4)] == ["a", "undecided"]


def test_the_tests_of_seeds_that_share_items_do_not_add_up() -> None:
    """Two equally good arms on the items of one file: three seeds are wrong together, at the level of one."""
    rng = stream(9, 0, 0, "file")
    a, b = np.zeros(100, dtype=int), np.zeros(100, dtype=int)
    a[:10], b[10:12] = 1, 1  # ten to two: p = 0.039 in each seed
    names = np.array([f"item {i}" for i in range(100)])
    outcomes_a, outcomes_b, items = (dict.fromkeys(range(3), of) for of in (a, b, names))
    own = statistics.compare("s", "a", "b", outcomes_a, outcomes_b, rng)
    same = statistics.compare("s", "a", "b", outcomes_a, outcomes_b, rng, items=items)
    assert [statistics.verdict(c, 4) for c in (own, same)] == ["a", "undecided"]


def test_a_bound_has_resamples_beyond_it() -> None:
    """One of six claims with eight seeds is judged by a percentile of which 500 resamples have none."""
    draw = stream(8, 0, 0, "tail")
    values = [draw.choice([-1.0, 0.0, 1.0], 200, p=[0.15, 0.6, 0.25]) for _ in range(8)]
    few, many = (
        statistics.hierarchical_bootstrap(values, stream(9, 0, 0, "tail"), resamples, statistics.ALPHA / 6)[0]
        for resamples in (500, 200_000)
    )
    assert few == pytest.approx(many, abs=0.1 * (np.mean(values) - many))


def test_five_seeds_cannot_decide_and_say_so() -> None:
    rng = stream(4, 0, 0, "five")
    only = _family(rng, np.array([0.15]), 5, 1000, 0.0)[0]
    assert only.verdict == "undecided" and only.lo > 0
    assert only.note == "5 seeds cannot decide 1 comparison (smallest Holm p 0.0625)"


def test_a_bound_that_is_zero_but_for_rounding_gives_no_verdict() -> None:
    rng = stream(11, 0, 0, "rounding")
    zeros = 0
    for _ in range(12):
        a, b = {}, {}
        for seed in range(8):
            more = 3 - rng.integers(2)  # of 12 items, of which b alone answers one
            a[seed], b[seed] = (np.arange(12) < more).astype(int), (np.arange(12) == 11).astype(int)
        (found,) = statistics.decide([statistics.compare("s", "a", "b", a, b, rng, RESAMPLES)])
        zeros += found.lo == 0
        assert found.p_holm < 0.05 and (abs(found.lo) > 1e-3 or found.lo == 0)
        assert (found.verdict == "a") == (found.lo > 0)
    assert zeros > 0


def test_what_the_seeds_of_a_comparison_can_show_depends_on_the_others() -> None:
    """Holm corrects the largest p of three for itself alone."""
    eight, six = {s: np.ones(20) for s in range(8)}, {s: np.ones(20) for s in range(6)}
    worse = {s: np.arange(20) > 4 for s in range(8)}
    rng = stream(12, 0, 0, "unequal")
    one, other = (statistics.compare(f"s{k}", "a", "b", eight, worse, rng, RESAMPLES) for k in range(2))
    few = statistics.compare("s2", "a", "b", six, {s: worse[s] for s in six}, rng, RESAMPLES)
    found = statistics.decide([one, other, few])
    assert [own.verdict for own in found] == ["a"] * 3 and [own.note for own in found] == [""] * 3
    assert found[2].p_holm == 2.0**-5
    (_, _, alone) = statistics.decide([few, few, few])
    assert alone.note == "6 seeds cannot decide 3 comparisons (smallest Holm p 0.0938)"


def test_a_worse_first_condition_loses_to_the_second() -> None:
    worse = _family(stream(5, 0, 0, "worse"), np.array([-0.15]), 8, 500, 0.0)[0]
    assert worse.verdict == "b" and worse.hi < 0


def test_unpaired_outcomes_and_too_many_comparisons_are_refused() -> None:
    rng = stream(6, 0, 0, "refuse")
    with pytest.raises(StageError, match=r"seeds \[0\] and \[1\] do not pair"):
        statistics.compare("s", "a", "b", {0: np.ones(3)}, {1: np.ones(3)}, rng)
    with pytest.raises(StageError, match="3 and 4 items do not pair"):
        statistics.compare("s", "a", "b", {0: np.ones(3)}, {0: np.ones(4)}, rng)
    one = statistics.compare("s", "a", "b", {0: np.ones(3)}, {0: np.zeros(3)}, rng)
    with pytest.raises(StageError, match="at most 6"):
        statistics.decide([one] * 7)


@pytest.mark.parametrize(
    ("p_holm", "lo", "verdict"), [(0.04, 0.01, "a"), (0.06, 0.01, "undecided"), (0.04, -0.01, "undecided")]
)
def test_a_verdict_needs_the_p_of_holm_and_an_interval_clear_of_zero(p_holm: float, lo: float, verdict: str) -> None:
    """The p before the adjustment is 0.01."""
    found = statistics.Comparison("holdout_id", "a", "b", 100, 8, 0.05, lo, 0.1, 0.01, p_holm, ())
    assert statistics.verdict(found, 6) == verdict


def test_bounds_are_those_of_t_from_five_seeds_on_and_seeds_are_resampled() -> None:
    for seeds in (5, 8):
        tail, _ = statistics.tail_and_resamples(seeds, 1, 0.05)
        assert stats.norm.ppf(tail) * np.sqrt((seeds - 1) / seeds) == pytest.approx(stats.t.ppf(0.025, seeds - 1))
    assert statistics.tail_and_resamples(4, 1, 0.05)[0] == 0.025
    levels = [np.full(40, level) for level in (0.1, 0.5, 0.9)]  # all draws of one seed: 1 in 27, beyond a bound
    for items in (None, [np.arange(40) + 100 * seed for seed in range(3)]):
        found = statistics.hierarchical_bootstrap(levels, stream(1, 0, 0, "test"), items=items)
        assert found == pytest.approx((0.1, 0.9))
