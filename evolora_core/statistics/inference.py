"""Intervals, tests and the one rule by which a comparison of two conditions gets a verdict.

Knows nothing of stores or files: outcomes come in as arrays, one per seed, items in the same order for both
conditions. The rule (`verdict`) is deliberately hard to please. Five seeds never reach p < 0.05 (the smallest
two-sided sign-flip p is 2/2^5 = 0.0625), six do for a single comparison, eight for a family of six: plan the seeds
accordingly.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse, special

from evolora_core.errors import StageError

ALPHA = 0.05
MIN_SEEDS = 5  # below this a table speaks of its own runs only
MAX_COMPARISONS = 6
RESAMPLES = 20_000
IN_A_TAIL = 20  # resamples beyond a bound at least, or it is their extreme by luck
ROUNDING = 1e-7  # shares that differ by less are equal: some are divided in float32
BLOCK = 2**21  # draws of items that are held at once
UNDECIDED = "undecided"
THESE_RUNS_ONLY = "these runs only"
Items = Sequence[np.ndarray] | None  # the name of the item of each value, where seeds share items


@dataclass(frozen=True)
class Comparison:
    """Condition `a` against `b` on one split.

    diff      mean over seeds of accuracy(a) - accuracy(b); lo, hi: its 95 % hierarchical bootstrap interval
    n         paired items over all seeds
    p         two-sided sign-flip test over seeds; p_holm: adjusted for the other declared comparisons
    verdict   name of the better condition, or "undecided"
    note      what limits the verdict, for the reader of the table
    floor     the lower bound that a claim of non-inferiority is judged by; `lo` if None
    shared    whether the seeds were asked the same items, as those of a file
    """

    split: str
    a: str
    b: str
    n: int
    seeds: int
    diff: float
    lo: float
    hi: float
    p: float
    p_holm: float
    seed_tests: tuple[tuple[float, float], ...]  # per seed: (difference, p of the exact McNemar test)
    verdict: str = UNDECIDED
    note: str = ""
    floor: float | None = None
    shared: bool = False


def wilson(correct: int, n: int) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson 1927, JASA 22), no continuity correction. n = 0 gives (0, 1)."""
    if not 0 <= correct <= n:
        raise ValueError(f"wilson: {correct} correct of {n}")
    if n == 0:
        return 0.0, 1.0
    z = float(special.ndtri(1 - ALPHA / 2))
    share = correct / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At 0 and n the bound is exact; rounding must not put it on the wrong side of the estimate.
    return (0.0 if correct == 0 else float(centre - half)), (1.0 if correct == n else float(centre + half))


def hierarchical_bootstrap(
    values: Sequence[np.ndarray],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    alpha: float = ALPHA,
    items: Items = None,
) -> tuple[float, float]:
    """Percentile interval of the mean over seeds of the per-seed means, resampling seeds, then items within each
    drawn seed.

    `values[s]` is the array [items of seed s] of item values (0/1 outcomes, or paired differences in -1, 0, 1). From
    MIN_SEEDS seeds on, the percentiles are widened to those that a t interval would use, since the plain ones cover
    only about 89 % at five seeds and 91 % at eight where the seeds differ more than their items scatter (simulated;
    Hesterberg 2015, "What Teachers Should Know About the Bootstrap", Am. Stat. 69:371, section 5.2). With fewer seeds
    they are the plain ones, and the interval speaks of these runs only. Where so few resamples would leave fewer than
    IN_A_TAIL beyond a bound, more are drawn.

    `items[s]` names the item of each value where seeds share items, as those of a file. Seeds and items are then
    resampled crossed: an item is drawn once, for all seeds (the pigeonhole bootstrap; rather too wide than too narrow:
    Owen 2007, Ann. Appl. Stat. 1:386).
    """
    tail, resamples = tail_and_resamples(len(values), resamples, alpha)
    drawn = _draw_seeds(values, rng, resamples)
    return bounds(_means(values, items, drawn, rng), tail)


@dataclass(frozen=True)
class Contrast:
    """Intervals of the difference `first - second` of two means, and of the ratio `second / first`, which may have
    none.
    """

    difference: tuple[float, float]
    ratio: tuple[float, float] | None


def contrast(
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    items: tuple[Items, Items] = (None, None),
) -> Contrast:
    """Two means over the same seeds of different items: percentile intervals, resampling seeds for both together, then
    the items of each within the drawn seeds, or crossed where `items` names them, as in `hierarchical_bootstrap`.

    `first[s]` and `second[s]` are item values of seed s. There is no ratio where the interval of mean(first) is not
    wholly above zero, since no interval of finite length would cover it then (Fieller 1954, J. R. Stat. Soc. B 16:175).
    """
    if len(first) != len(second):
        raise ValueError(f"contrast: {len(first)} and {len(second)} seeds do not pair")
    tail, resamples = tail_and_resamples(len(first), resamples, ALPHA)
    drawn = _draw_seeds(first, rng, resamples)
    one, other = (_means(values, named, drawn, rng) for values, named in zip((first, second), items, strict=True))
    difference = bounds(one - other, tail)
    if bounds(one, tail)[0] <= 0:
        return Contrast(difference, None)
    # A resample whose first mean is not positive has no ratio: it counts against both bounds.
    none, ratios = one <= 0, other / np.where(one > 0, one, 1.0)
    lo = float(np.quantile(np.where(none, -np.inf, ratios), tail, method="higher"))
    hi = float(np.quantile(np.where(none, np.inf, ratios), 1 - tail, method="lower"))
    return Contrast(difference, (lo, hi) if np.isfinite([lo, hi]).all() else None)


def tail_and_resamples(seeds: int, resamples: int, alpha: float) -> tuple[float, int]:
    """The share of resamples beyond each bound of an interval over so many seeds, widened as `hierarchical_bootstrap`
    says, and how many resamples there have to be.
    """
    tail = alpha / 2
    if seeds >= MIN_SEEDS:
        tail = float(special.ndtr(np.sqrt(seeds / (seeds - 1)) * special.stdtrit(seeds - 1, alpha / 2)))
    return tail, max(resamples, math.ceil(IN_A_TAIL / tail))


def _draw_seeds(values: Sequence[np.ndarray], rng: np.random.Generator, resamples: int) -> np.ndarray:
    """Places of seeds [resamples, seeds], with replacement."""
    seeds = len(values)
    if seeds == 0:
        raise ValueError("a bootstrap over seeds needs at least one")
    return rng.integers(seeds, size=(resamples, seeds))


def _means(values: Sequence[np.ndarray], items: Items, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return _resampled_means(values, drawn, rng) if items is None else _crossed_means(values, items, drawn, rng)


def _resampled_means(values: Sequence[np.ndarray], drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means over seeds [resamples] of the means of resampled items; `drawn` [resamples, seeds]: places of seeds."""
    if any(len(v) == 0 for v in values):
        raise ValueError("a bootstrap over items needs at least one of every seed")
    means = np.empty(drawn.shape)
    for seed, items in enumerate(values):
        # Drawing n items with replacement is one multinomial draw over the distinct values, whatever n is.
        distinct, counts = np.unique(np.asarray(items, dtype=np.float64), return_counts=True)
        here = drawn == seed
        picks = rng.multinomial(len(items), counts / len(items), size=int(here.sum()))
        means[here] = picks @ distinct / len(items)
    result: np.ndarray = means.mean(axis=1)
    return result


def _crossed_means(
    values: Sequence[np.ndarray], items: Sequence[np.ndarray], drawn: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Means over seeds [resamples] of the means of items that are resampled once for all seeds."""
    names, places = np.unique(np.concatenate(items), return_inverse=True)
    seeds = np.repeat(np.arange(len(values)), [len(v) for v in values])
    table = np.zeros((2, len(values), len(names)), dtype=np.float32)  # the sum of the values, and how many there are
    np.add.at(table[0], (seeds, places), np.concatenate(values))
    np.add.at(table[1], (seeds, places), 1)
    order = np.lexsort(table.reshape(-1, len(names)))  # the same draws, however items are named
    summed, counted = (sparse.csr_array(part[:, order]) for part in table)  # few seeds have the same item
    own = np.array([[np.mean(v)] for v in values])  # of a seed none of whose items was drawn
    means = np.empty(drawn.shape)
    together = max(1, BLOCK // len(names))
    for start in range(0, len(drawn), together):
        block = means[start : start + together]
        picks = rng.integers(len(names), size=(len(block), len(names)), dtype=np.int32)
        picks += np.arange(len(block), dtype=np.int32)[:, None] * len(names)
        weights = np.bincount(picks.ravel(), minlength=picks.size).astype(np.float32).reshape(picks.shape).T
        here = counted @ weights
        block[:] = np.where(here > 0, summed @ weights / np.maximum(here, 1), own).T
    result: np.ndarray = np.take_along_axis(means, drawn, axis=1).mean(axis=1)
    return result


def bounds(means: np.ndarray, tail: float) -> tuple[float, float]:
    """The quantiles beyond which a share `tail` of the resamples lies. One that is zero but for the rounding of sums is
    0, and has no sign.
    """
    lo, hi = (0.0 if abs(bound) < ROUNDING else float(bound) for bound in np.quantile(means, [tail, 1 - tail]))
    return lo, hi


def accuracy_interval(
    outcomes: Sequence[np.ndarray],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    items: Items = None,
) -> tuple[float, float]:
    """Interval of a mean accuracy over seeds, never narrower than Wilson's of the pooled items; `items` as in
    `hierarchical_bootstrap`, each of which counts once.

    The bootstrap alone collapses to zero width where every answer is right (or wrong).
    """
    answers = np.concatenate(outcomes)
    n = answers.size if items is None else np.unique(np.concatenate(items)).size
    low, high = wilson(round(float(answers.mean()) * n), n)
    if len(outcomes) == 1:
        return low, high
    lo, hi = hierarchical_bootstrap(outcomes, rng, resamples, items=items)
    return min(lo, low), max(hi, high)


def sign_flip_p(differences: Sequence[float]) -> float:
    """Exact two-sided p of the sign-flip (randomisation) test that the seeds' differences are symmetric about zero.

    Counts the 2^S sign patterns whose |sum| reaches the observed one (Fisher 1935, The Design of Experiments, section
    21). The patterns of the two halves are enumerated apart and joined by sorting, so 40 seeds are still exact.
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.size == 0 or not np.isfinite(d).all():
        raise ValueError("sign_flip_p: needs at least one finite difference")
    observed = abs(d.sum()) - 1e-12 * np.abs(d).sum()  # sums that differ by rounding alone are ties
    if observed <= 0:
        return 1.0
    left, right = _signed_sums(d[: d.size // 2]), np.sort(_signed_sums(d[d.size // 2 :]))
    at_least = right.size - np.searchsorted(right, observed - left, side="left")
    at_most = np.searchsorted(right, -observed - left, side="right")
    return float((at_least.sum() + at_most.sum()) / 2.0**d.size)


def _signed_sums(values: np.ndarray) -> np.ndarray:
    """All sums [2^n] of the values under every pattern of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def mcnemar_exact(a: np.ndarray, b: np.ndarray) -> float:
    """Exact two-sided McNemar test on paired 0/1 outcomes [items]: binomial on the discordant pairs; 1 without any."""
    a, b = np.asarray(a, dtype=bool), np.asarray(b, dtype=bool)
    if a.shape != b.shape:
        raise ValueError(f"mcnemar_exact: outcomes of shapes {a.shape} and {b.shape} are not paired")
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    return min(1.0, 2 * float(special.bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the order given (Holm 1979, Scand. J. Stat. 6:65)."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(
        1.0, np.maximum.accumulate([(len(p_values) - rank) * p_values[index] for rank, index in enumerate(order)])
    )
    return [float(p) for p in adjusted]


def non_inferior(c: Comparison, margin: float, margins: int = 1) -> bool:
    """Whether "a not worse than b by more than `margin`" is shown: the lower bound of the difference lies above
    -margin, and the seeds are enough (`can_show`). Where a suite declares several margins, the bound is Bonferroni's
    (`compare`).
    """
    if margin <= 0:
        raise ValueError(f"non_inferior: the margin must be positive, not {margin}")
    return can_show(c.seeds, margins) and (c.lo if c.floor is None else c.floor) > ROUNDING - margin


def can_show(seeds: int, margins: int) -> bool:
    """Whether so many seeds can show one of so many declared margins. A bootstrap's bound never lies below the worst
    seed, and where a margin just fails, all seeds lie above it with a chance of 2^-seeds: more than the error that is
    allowed with five seeds for one margin, and with six for two.
    """
    return 2.0**-seeds <= ALPHA / 2 / margins


def compare(
    split: str,
    a: str,
    b: str,
    outcomes_a: Mapping[int, np.ndarray],
    outcomes_b: Mapping[int, np.ndarray],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    margins: int = 0,
    items: Mapping[int, np.ndarray] | None = None,
) -> Comparison:
    """One comparison before adjustment; `decide` gives verdicts to a whole family of them. `margins`: how many claims
    of non-inferiority are declared, if this is one of them; else 0. `items`: by seed, as in `hierarchical_bootstrap`.

    `outcomes_x[seed]` are 0/1 arrays, item i of a paired with item i of b. Raises StageError where seeds or item
    counts differ.
    """
    if sorted(outcomes_a) != sorted(outcomes_b) or not outcomes_a:
        raise StageError(
            f"{a} against {b} on {split}: seeds {sorted(outcomes_a)} and {sorted(outcomes_b)} do not pair; "
            "run the missing ones"
        )
    differences = []
    for seed in sorted(outcomes_a):
        left, right = np.asarray(outcomes_a[seed]), np.asarray(outcomes_b[seed])
        if left.shape != right.shape or left.size == 0:
            raise StageError(f"{a} against {b} on {split}, seed {seed}: {left.size} and {right.size} items do not pair")
        differences.append(left.astype(np.float64) - right.astype(np.float64))
    by_seed = [float(d.mean()) for d in differences]
    same_draws = copy.deepcopy(rng)
    named = None if items is None else [items[seed] for seed in sorted(outcomes_a)]
    lo, hi = hierarchical_bootstrap(differences, rng, resamples, items=named)
    floor = lo
    if margins > 1 and can_show(len(by_seed), margins):
        floor = hierarchical_bootstrap(differences, same_draws, resamples, ALPHA / margins, named)[0]
    p = sign_flip_p(by_seed)
    tests = tuple(
        (d, mcnemar_exact(outcomes_a[seed], outcomes_b[seed]))
        for seed, d in zip(sorted(outcomes_a), by_seed, strict=True)
    )
    n = sum(d.size for d in differences)
    return Comparison(
        split=split,
        a=a,
        b=b,
        n=n,
        seeds=len(by_seed),
        diff=float(np.mean(by_seed)),
        lo=lo,
        hi=hi,
        p=p,
        p_holm=p,  # until `decide` adjusts it
        seed_tests=tests,
        floor=floor,
        shared=named is not None,
    )


def decide(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons that a suite declared and that could be made, all of them, with Holm's p over this family,
    verdict and note filled in.
    """
    if len(comparisons) > MAX_COMPARISONS:
        raise StageError(
            f"{len(comparisons)} comparisons are declared, at most {MAX_COMPARISONS} are allowed: "
            "each one costs all of them power"
        )
    p_values, family = [c.p for c in comparisons], len(comparisons)
    adjusted = holm(p_values)
    decided = []
    for place, (comparison, p_holm) in enumerate(zip(comparisons, adjusted, strict=True)):
        comparison = replace(comparison, p_holm=p_holm)
        # All seeds in one direction give the smallest p; what Holm makes of it depends on the others, too.
        best = holm([*p_values[:place], 2.0 ** (1 - comparison.seeds), *p_values[place + 1 :]])[place]
        decided.append(replace(comparison, verdict=verdict(comparison, family), note=_note(comparison, family, best)))
    return decided


def verdict(c: Comparison, family: int = 1) -> str:
    """The better condition, or "undecided", of one of `family` comparisons.

    From MIN_SEEDS seeds on: Holm p < 0.05 and an interval clear of zero. With fewer: only if every seed's own exact
    McNemar test is significant, all in one direction; and then for these runs only. That all S seeds err in one
    direction at a level α' has the chance 2 (α'/2)^S; α' is 0.05, or less where that chance would exceed 0.05 over the
    whole family: with one seed it is Bonferroni's, and so it is where the seeds were asked the same items, since their
    tests then err together.
    """
    if c.seeds >= MIN_SEEDS:
        decided = c.p_holm < ALPHA and (c.lo > 0 or c.hi < 0)
    else:
        signs = {np.sign(d) for d, _ in c.seed_tests}
        independent = 1 if c.shared else c.seeds
        level = min(ALPHA, 2 * (ALPHA / family / 2) ** (1 / independent))
        decided = len(signs) == 1 and all(p < level for _, p in c.seed_tests)
    return (c.a if c.diff > 0 else c.b) if decided and c.diff != 0 else UNDECIDED


def _note(c: Comparison, family: int, smallest: float) -> str:
    """What limits the verdict, for the reader of the table; `smallest`: the Holm p if all seeds had one direction."""
    notes = []
    if c.seeds < MIN_SEEDS:
        notes.append(THESE_RUNS_ONLY)
    elif smallest >= ALPHA:
        claims = "1 comparison" if family == 1 else f"{family} comparisons"
        notes.append(f"{c.seeds} seeds cannot decide {claims} (smallest Holm p {smallest:.3g})")
    if c.diff == c.lo == c.hi == 0 and all(p == 1 for _, p in c.seed_tests):
        notes.append("no answer differs in correctness")
    return "; ".join(notes)
