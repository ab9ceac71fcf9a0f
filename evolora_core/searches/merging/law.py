"""How the loss of a merge falls with the number of merged specialists and the size of their base.

The published form (Model merging scaling laws, arXiv 2509.24244, 2025), with N parameters and k specialists:

    L(N, k) = L* + B N^-β + A N^-γ / (k + b)

Here it is fitted, for each method, on the mean losses of subsets of up to five specialists, and judged on larger ones
beside the plainest rival, which says "the same as with five".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import least_squares

START = np.log([0.02, 1.0, 0.3, 0.3, 0.3, 0.5])  # L*, B, β, A, γ, b: all positive, so their logarithms are fitted
SCALE = 1e5  # parameters, so that powers of N are near 1


@dataclass(frozen=True)
class Fit:
    """L*, B, β, A, γ and b, and the root mean square error of the fitted means (nats)."""

    parameters: np.ndarray
    error: float

    def predict(self, size: np.ndarray, merged: np.ndarray) -> np.ndarray:
        """Losses for base sizes and numbers of specialists, of equal shapes."""
        return law(np.log(self.parameters), size, merged)


def law(logs: np.ndarray, size: np.ndarray, merged: np.ndarray) -> np.ndarray:
    """The form above; `logs` are logarithms of its six parameters."""
    floor, width, beta, gain, gamma, shift = np.exp(logs)
    scaled = size / SCALE
    result: np.ndarray = floor + width * scaled**-beta + gain * scaled**-gamma / (merged + shift)
    return result


def fit(size: np.ndarray, merged: np.ndarray, loss: np.ndarray) -> Fit:
    """Least squares of the losses `[n]` from several starts; the best of them."""
    tries = []
    for factor in (0.2, 1.0, 5.0):
        start = START + np.array([0, 0, 0, np.log(factor), 0, np.log(factor)])
        tries.append(least_squares(lambda logs: law(logs, size, merged) - loss, start, bounds=(-12, 6), max_nfev=2000))
    best = min(tries, key=lambda found: float(found.cost))
    return Fit(np.exp(best.x), float(np.sqrt(np.mean(best.fun**2))))


def subsets(parents: Sequence[str]) -> list[tuple[str, ...]]:
    """Every subset with at least one, the small ones first."""
    return [own for size in range(1, len(parents) + 1) for own in combinations(parents, size)]
