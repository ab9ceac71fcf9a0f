"""How bad the bad runs are: the mean of the worst quarter of runs (expected shortfall; Acerbi and Tasche 2002, J. Bank.
Finance 26:1487), with intervals over runs.
"""

import numpy as np

from evolora_core.statistics.inference import ALPHA, RESAMPLES, bounds, tail_and_resamples

FEWEST = 16  # runs: below, the worst quarter is one, two or three


def worst_quarter(accuracies: np.ndarray) -> np.ndarray:
    """Mean of the lowest quarter, rounded up, along the last axis `[…, runs]`."""
    count = -(-accuracies.shape[-1] // 4)
    result: np.ndarray = np.partition(accuracies, count - 1, axis=-1)[..., :count].mean(axis=-1)
    return result


def worst_quarter_interval(
    a: np.ndarray, b: np.ndarray | None, rng: np.random.Generator, resamples: int = RESAMPLES, alpha: float = ALPHA
) -> tuple[float, float]:
    """Percentile interval of the worst quarter of runs `a`; with `b` of how much better `a`'s is than `b`'s.

    `a[s]` and `b[s]` are the accuracies of runs of seed s, which are resampled together; the worst of `a` and of `b`
    need not be of the same seeds. Items are not resampled: their scatter is in the accuracies, and twice of it would
    make the worst runs worse. The percentiles are widened, and resamples added, as in `hierarchical_bootstrap`.
    """
    tail, resamples = tail_and_resamples(len(a), resamples, alpha)
    drawn = rng.integers(len(a), size=(resamples, len(a)))
    return bounds(worst_quarter(a[drawn]) - (0.0 if b is None else worst_quarter(b[drawn])), tail)
