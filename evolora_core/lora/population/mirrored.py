"""The slope of evolution strategies: the direction in which the scores of mirrored perturbations rise."""

import numpy as np
from torch import Tensor, from_numpy


def slope(scores: np.ndarray, noise: Tensor) -> Tensor | None:
    """Direction `[D]` in which scores rise, from those of θ + σε and then of θ - σε `[2 pairs]`; None if all are equal.

    Salimans et al. 2017 (arXiv 1703.03864) with mirrored pairs: `noise` is ε `[pairs, D]`. Differences of a pair are
    divided by their spread: Adam is blind to the scale, so σ is not needed.
    """
    advantage = scores[: len(noise)] - scores[len(noise) :]
    spread = float(np.sqrt(np.mean(advantage**2)))
    return from_numpy(advantage / spread).to(noise) @ noise / len(noise) if spread else None
