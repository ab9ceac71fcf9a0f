"""How well a cheap measurement ranks programs as an expensive one does."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from evolora_core.statistics.inference import ALPHA


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation of `programs` programs with its 95 % interval; NaN where all of one side are equal."""

    value: float
    lo: float
    hi: float
    programs: int


def spearman(cheap: np.ndarray, expensive: np.ndarray) -> RankCorrelation:
    """Rank correlation of two scores `[programs]`; programs with a NaN on either side are left out.

    Interval by Fisher's z with the variance (1 + r²/2) / (n - 3) of Bonett and Wright 2000, Psychometrika 65:23; from
    -1 to 1 below four programs.
    """
    both = np.isfinite(cheap) & np.isfinite(expensive)
    left, right = (_ranks(np.asarray(values)[both]) for values in (cheap, expensive))
    count = int(both.sum())
    left, right = left - left.mean() if count else left, right - right.mean() if count else right
    scale = float(np.sqrt((left**2).sum() * (right**2).sum()))
    if not scale:
        return RankCorrelation(float("nan"), -1.0, 1.0, count)
    value = float(np.clip((left * right).sum() / scale, -1, 1))
    if count < 4:
        return RankCorrelation(value, -1.0, 1.0, count)
    half = special.ndtri(1 - ALPHA / 2) * np.sqrt((1 + value**2 / 2) / (count - 3))
    centre = np.arctanh(np.clip(value, -1 + 1e-9, 1 - 1e-9))
    return RankCorrelation(value, float(np.tanh(centre - half)), float(np.tanh(centre + half)), count)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, ties with the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    found: np.ndarray = (last - (counts - 1) / 2)[place]
    return found
