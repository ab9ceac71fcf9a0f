"""Whether one program is better than another on seeds that no selection has seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from evolora_core.searches.attention.scaling.intervals import of_crossed
from evolora_core.statistics.inference import ALPHA, MIN_SEEDS, THESE_RUNS_ONLY, UNDECIDED, holm, sign_flip_p


@dataclass(frozen=True)
class Paired:
    """Program `a` against `b` at one size, over common seeds.

    gain      mean of loss(b) - loss(a) in nats (positive: a is better) with its 95 % interval
    p         exact two-sided sign-flip test over the seeds; p_holm: adjusted for the other tests of the family
    effect    Cohen's d of the pairs, the mean of the seeds' gains over their standard deviation, with its 95 % interval
    verdict   name of the better program, or "undecided"
    note      what limits the verdict
    """

    a: str
    b: str
    seeds: int
    gain: float
    lo: float
    hi: float
    p: float
    p_holm: float
    effect: float
    effect_lo: float
    effect_hi: float
    verdict: str = UNDECIDED
    note: str = ""


def compare_losses(a: str, b: str, losses_a: Mapping[int, np.ndarray], losses_b: Mapping[int, np.ndarray]) -> Paired:
    """One comparison before adjustment. `losses_x[seed]` is a mean loss, or the losses of single texts `[texts]`, the
    same texts in the same order everywhere; then the interval speaks of new texts too.
    """
    if sorted(losses_a) != sorted(losses_b) or not losses_a:
        raise ValueError(f"{a} against {b}: seeds {sorted(losses_a)} and {sorted(losses_b)} do not pair")
    gains = np.stack([np.asarray(losses_b[seed]) - np.asarray(losses_a[seed]) for seed in sorted(losses_a)])
    by_seed = gains if gains.ndim == 1 else gains.mean(axis=1)
    found = of_crossed(gains)
    p = sign_flip_p(by_seed.tolist())
    return Paired(a, b, len(by_seed), found.value, found.lo, found.hi, p, p, *cohens_d(by_seed))


def cohens_d(differences: np.ndarray) -> tuple[float, float, float]:
    """Cohen's d of paired differences `[pairs]` (mean over standard deviation) with its exact 95 % interval.

    Bounds are the noncentrality parameters whose t distribution has the observed t at 97.5 and 2.5 % (Cumming and Finch
    2001, Educ. Psychol. Meas. 61:532). NaN where the differences are too few or all equal.
    """
    count = len(differences)
    scatter = float(differences.std(ddof=1)) if count > 1 else 0.0
    if scatter <= 1e-12 * float(np.abs(differences).max(initial=0.0)):  # equal but for rounding
        return (float("nan"),) * 3
    effect = float(differences.mean()) / scatter
    root = float(np.sqrt(count))
    lo, hi = (float(special.nctdtrinc(count - 1, p, effect * root)) / root for p in (1 - ALPHA / 2, ALPHA / 2))
    return effect, lo, hi


def decide_family(family: Sequence[Paired]) -> list[Paired]:
    """All tests of a family, with Holm's p over them and the verdict: MIN_SEEDS seeds at least, p below 0.05 and an
    interval clear of zero.
    """
    decided = []
    for own, p_holm in zip(family, holm([own.p for own in family]), strict=True):
        clear = own.lo > 0 or own.hi < 0
        shown = own.seeds >= MIN_SEEDS and p_holm < ALPHA and clear
        decided.append(
            replace(
                own,
                p_holm=p_holm,
                verdict=(own.a if own.gain > 0 else own.b) if shown else UNDECIDED,
                note=_note(own.seeds, len(family)),
            )
        )
    return decided


def seeds_needed(family: int) -> int:
    """Seeds with which a family of so many tests can be decided at all: the smallest sign-flip p is 2^(1 - seeds)."""
    return max(MIN_SEEDS, int(np.floor(np.log2(family / ALPHA))) + 2)


def _note(seeds: int, family: int) -> str:
    if seeds < MIN_SEEDS:
        return THESE_RUNS_ONLY
    return f"needs {seeds_needed(family)} seeds, has {seeds}" if seeds < seeds_needed(family) else ""
