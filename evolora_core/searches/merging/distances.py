"""How far models are from each other, from a sample of their weights: of each tensor some rows at equal distances."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from evolora_core.searches.merging.weights import Described

Matrix = NDArray[np.float64]

SAMPLE = 2**20  # elements of each model that are read: 4 MiB in float32
FEWEST = 2**10  # elements of a tensor that is read whole
TINY = float(np.finfo(np.float64).tiny)


def steps(start: Described) -> dict[str, int]:
    """Row step for each tensor: 1 reads every row."""
    sizes = {name: prod(start.shape(name)) for name in start.names}
    step = max(1, sum(sizes.values()) // SAMPLE)
    return {name: 1 if size <= FEWEST else step for name, size in sizes.items()}


def sampled_products(start: Described, models: Sequence[Described]) -> Matrix:
    """Inner products of all pairs of θᵢ − θ₀ and, in the last row and column, θ₀ itself: [models + 1, models + 1].
    θ₀ is `start`.

    A tensor's share in the sum is scaled up to its size, so that these are estimates of the products of whole models.
    Names and shapes must agree. Where all rows are read they are exact.
    """
    found = np.zeros((len(models) + 1, len(models) + 1))
    for name, step in steps(start).items():
        first = start.rows(name, step)
        parts = [*(model.rows(name, step) - first for model in models), first]
        flat = np.stack(parts).reshape(len(parts), -1).astype(np.float64)
        if flat.shape[1]:
            found += (flat @ flat.T) * (prod(start.shape(name)) / flat.shape[1])
    return found


def distances(products: Matrix) -> Matrix:
    """|θᵢ − θⱼ| / |θᵢ| of all pairs, θ₀ in the last place: [n, n], from what `sampled_products` gave."""
    moves = products.copy()
    moves[-1], moves[:, -1] = 0, 0  # θ₀ − θ₀
    squares = moves.diagonal()
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * moves, 0))
    own = squares + 2 * products[-1] + products[-1, -1]  # |θ₀ + (θᵢ − θ₀)|²
    own[-1] = products[-1, -1]
    found: Matrix = apart / np.sqrt(np.maximum(own, TINY))[:, None]
    return found


def cosines(products: Matrix) -> Matrix:
    """Cosines of all pairs of task vectors [n, n] from their inner products; 0 where one has no length."""
    norms = np.sqrt(products.diagonal())
    lengths = np.outer(norms, norms)
    found: Matrix = np.where(lengths > 0, products / np.maximum(lengths, TINY), 0.0)
    return found.clip(-1, 1)
