"""How far models are from each other, from a sample of their weights: of each tensor some rows at equal distances."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from evolora_core.searches.merging.weights import FolderWeights, Weights

SAMPLE = 2**20  # elements of each model that are read: 4 MiB in float32
FEWEST = 2**10  # elements of a tensor that is read whole


def sampled_products(start: Weights, models: Sequence[Weights]) -> Tensor:
    """Inner products of all pairs of θᵢ − θ₀ and, in the last row and column, θ₀ itself: [models + 1, models + 1],
    float64. θ₀ is `start`.

    A tensor's share in the sum is scaled up to its size, so that these are estimates of the products of whole models.
    Names and shapes must agree. Where all rows are read they are exact.
    """
    whole = sum(prod(start.shape(name)) for name in start.names)
    step = max(1, whole // SAMPLE)
    found = torch.zeros(len(models) + 1, len(models) + 1, dtype=torch.float64)
    for name in start.names:
        size = prod(start.shape(name))
        own = 1 if size <= FEWEST else step
        first = _rows(start, name, own)
        parts = [*(_rows(model, name, own) - first for model in models), first]
        flat = torch.stack(parts).reshape(len(parts), -1).double()
        if flat.shape[1]:
            found += (flat @ flat.T) * (size / flat.shape[1])
    return found


def distances(products: Tensor) -> Tensor:
    """|θᵢ − θⱼ| / |θᵢ| of all pairs, θ₀ in the last place: [n, n], from what `sampled_products` gave."""
    steps = products.clone()
    steps[-1], steps[:, -1] = 0, 0  # θ₀ − θ₀
    squares = steps.diagonal()
    apart = (squares[:, None] + squares[None, :] - 2 * steps).clamp(min=0).sqrt()
    own = squares + 2 * products[-1] + products[-1, -1]  # |θ₀ + (θᵢ − θ₀)|²
    own[-1] = products[-1, -1]
    return apart / own.clamp(min=torch.finfo(own.dtype).tiny).sqrt()[:, None]


def cosines(products: Tensor) -> Tensor:
    """Cosines of all pairs of task vectors [n, n] from their inner products; 0 where one has no length."""
    norms = products.diagonal().sqrt()
    lengths = torch.outer(norms, norms)
    return torch.where(lengths > 0, products / lengths.clamp(min=torch.finfo(lengths.dtype).tiny), 0.0).clamp(-1, 1)


def _rows(model: Weights, name: str, step: int) -> Tensor:
    return model.rows(name, step) if isinstance(model, FolderWeights) else model.get(name)[::step]
