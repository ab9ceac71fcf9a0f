"""The winner's curse: the best of many noisy scores looks better than it is."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from evolora_core.searches.attention.scaling.predict import Prediction

CLEAR = 2.0  # standard errors by which a challenger must lead, or the incumbent is measured again


@dataclass(frozen=True)
class Curse:
    """Among `programs` scores whose noise and true spread are these standard deviations, the best is expected to look
    `excess` better than it is; all in the unit of the scores.
    """

    programs: int
    noise: float
    spread: float
    excess: float


def expected_best(count: int) -> float:
    """Mean of the largest of `count` independent standard normal numbers."""
    if count < 1:
        raise ValueError(f"expected_best: {count} numbers have no largest")
    grid = np.linspace(-9, 9, 6001)
    density = count * np.exp((count - 1) * special.log_ndtr(grid) - grid**2 / 2) / np.sqrt(2 * np.pi)
    return float(np.trapezoid(grid * density, grid))


def excess(count: int, noise: float, spread: float) -> float:
    """By how much the best of `count` scores is expected to look better than it is, for normal noise and truths.

    What a score is above the mean is noise by the share noise² / (noise² + spread²).
    """
    total = float(np.hypot(noise, spread))
    return expected_best(count) * noise**2 / total if total else 0.0


def estimate_curse(scores: np.ndarray, placebo: np.ndarray) -> Curse:
    """From the scores `[programs]` of a search and the scores of programs that do the same as the baseline: those
    differ by noise alone, and what the search's differ by more is true.
    """
    scores, placebo = (values[np.isfinite(values)] for values in (np.asarray(scores), np.asarray(placebo)))
    if len(placebo) < 2 or not len(scores):
        raise ValueError(f"estimate_curse: {len(placebo)} placebos and {len(scores)} scores; needs two and one")
    noise = float(placebo.std(ddof=1))
    seen = float(scores.var(ddof=1)) if len(scores) > 1 else 0.0
    spread = float(np.sqrt(max(seen - noise**2, 0.0)))
    return Curse(len(scores), noise, spread, excess(len(scores), noise, spread))


def must_measure_again(lead: Prediction) -> bool:
    """Whether the incumbent best has to be measured on a new seed before a challenger may take its place: `lead` is the
    predicted gain of the challenger over the incumbent, positive, but not by `CLEAR` standard errors, or by unknown
    ones.
    """
    return lead.value > 0 and not lead.value >= CLEAR * lead.estimate.se
