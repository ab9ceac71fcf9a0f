"""How well a cheap measurement ranks programs as an expensive one does."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
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
    -1 to 1 below four programs. Orders that agree altogether have no finite z: they get the interval of orders in which
    two neighbours have changed places, up to 1.
    """
    both = np.isfinite(cheap) & np.isfinite(expensive)
    left, right = (pd.Series(np.asarray(values)[both]).rank().to_numpy() for values in (cheap, expensive))
    count = int(both.sum())
    left, right = left - left.mean() if count else left, right - right.mean() if count else right
    scale = float(np.sqrt((left**2).sum() * (right**2).sum()))
    if not scale:
        return RankCorrelation(float("nan"), -1.0, 1.0, count)
    value = float(np.clip((left * right).sum() / scale, -1, 1))
    if count < 4:
        return RankCorrelation(value, -1.0, 1.0, count)
    most = 1 - 12 / (count * (count**2 - 1))
    near = float(np.clip(value, -most, most))
    half = special.ndtri(1 - ALPHA / 2) * np.sqrt((1 + near**2 / 2) / (count - 3))
    lo, hi = (float(np.tanh(np.arctanh(near) + sign * half)) for sign in (-1, 1))
    return RankCorrelation(value, -1.0 if value < -most else lo, 1.0 if value > most else hi, count)
