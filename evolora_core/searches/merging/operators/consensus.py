"""SCE: select, calculate, erase (Wan et al. 2024, FuseChat, arXiv 2408.07990)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from evolora_core.searches.merging.operators import deltas
from evolora_core.searches.merging.operators.base import Draw, Operator, Parameter


def sce(
    inputs: Sequence[Tensor], base: Tensor | None, params: Mapping[str, Any], options: Mapping[str, str], draw: Draw
) -> Tensor:
    """θ₀ + Σ wᵢτᵢ / Σ wᵢ over the i that agree with the sign of Στᵢ, wᵢ the share of input i in Σ|τ|².

    Of the elements whose variance over the τᵢ is not 0, only the share `select_topk` with the largest is moved at all.
    """
    assert base is not None
    parts = deltas.differences(inputs, base)
    if not all(math.isfinite(float(part.sum(dtype=torch.float64))) for part in parts):
        return torch.full_like(base, math.nan)  # what is left out here would hide it
    if params["select_topk"] < 1:
        left = ~_most_varied(parts, params["select_topk"])
        for part in parts:
            part.masked_fill_(left, 0)
    energy = [float(deltas.products([part])[0, 0]) for part in parts]
    total = math.fsum(energy)
    weights = [own / total if total > 0 else 1 / len(parts) for own in energy]

    def step(block: slice) -> Tensor:
        found, divisor = deltas.elected([part[block] for part in parts], [1.0] * len(parts), weights)
        return found.div_(divisor.masked_fill_(divisor == 0, 1))

    return deltas.moved(base, step, 1.0)


def _most_varied(parts: Sequence[Tensor], share: float) -> Tensor:
    """Which elements have the largest variance over the task vectors: bool [n]."""
    variance = torch.zeros_like(parts[0])
    for block in deltas.blocks(variance.numel()):
        # Seen from the first, so that equal ones have a variance of exactly 0.
        seen = [part[block] - parts[0][block] for part in parts]
        mean = deltas.weighted(seen, [1 / len(parts)] * len(parts))
        for part in seen:
            variance[block].add_(part.sub_(mean).square_(), alpha=1 / len(parts))
    return deltas.largest(variance, int(int(variance.count_nonzero()) * share))


OPERATORS = (Operator("sce", sce, (Parameter("select_topk", 1.0, 0.0, 1.0),)),)
