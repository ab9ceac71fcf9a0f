"""Intervals of a mean of paired differences over seeds and texts.

Seeds and texts are crossed: every seed is asked the same texts, so more seeds do not make up for few texts. The
bootstrap of `evolora_core.statistics` can cross them too, but a handful of seeds has no percentiles: here variances are
added.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from evolora_core.statistics.inference import ALPHA


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, the degrees of freedom of that, and its 95 % interval; NaN: not known."""

    value: float
    se: float
    dof: float
    lo: float
    hi: float


def finite(value: float) -> float | None:
    """None for a number that is not known."""
    return value if math.isfinite(value) else None


def quantile(dof: float) -> float:
    """The two-sided t quantile; NaN without degrees of freedom."""
    return float(special.stdtrit(dof, 1 - ALPHA / 2)) if dof > 0 else float("nan")


def estimate(value: float, parts: list[tuple[float, float]]) -> Estimate:
    """The estimate whose variance is the sum of independent parts, each (variance, degrees of freedom).

    The degrees of freedom of a sum are those of Welch and Satterthwaite (Satterthwaite 1946, Biometrics Bull. 2:110).
    """
    if any(dof <= 0 for _, dof in parts):
        return Estimate(value, *[float("nan")] * 4)
    total = sum(variance for variance, _ in parts)
    shares = sum(variance**2 / dof for variance, dof in parts)
    dof = total**2 / shares if shares > 0 else parts[0][1]
    se = float(np.sqrt(total))
    half = quantile(dof) * se
    return Estimate(value, se, float(dof), value - half, value + half)


def of_texts(values: np.ndarray) -> tuple[float, float]:
    """Variance of the mean of values `[texts]`, and its degrees of freedom."""
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else float("nan"), len(values) - 1.0


def of_crossed(differences: np.ndarray) -> Estimate:
    """The mean of paired differences `[seeds]`, or of `[seeds, texts]` for new seeds and new texts.

    The variance over texts and that over seeds are added; what a seed and a text have in common is in both, so the
    interval is a little too wide rather than too narrow (Owen 2007, Ann. Appl. Stat. 1:386, on such bootstraps).
    """
    seeds = differences if differences.ndim == 1 else differences.mean(axis=1)
    count = len(seeds)
    parts = [(float(seeds.var(ddof=1) / count) if count > 1 else float("nan"), count - 1.0)]
    if differences.ndim == 2:
        parts.append(of_texts(differences.mean(axis=0)))
    return estimate(float(seeds.mean()), parts)
