"""Attention as coefficients: y_i = sum over j <= i of alpha_ij v_j (Sieber et al. 2025, arXiv 2510.09389).

What stands in the block finds the coefficients from queries and keys and never sees the values, so that whatever it
does, the output is a sum of values that lie in the past. As it stands, this is causal softmax attention.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# EVOLVE-BLOCK-START
class Prepare(nn.Module):
    """What is done to queries, keys and values before they meet."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`q`, `k`, `v` [B, H, T, d] and the layer's input `x` [B, T, D] -> q, k, v."""
        return q, k, v


class Coefficients(nn.Module):
    """alpha = softmax(q k / sqrt(d)) over the past."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        """`q`, `k` [B, H, T, d], `x` [B, T, D] -> alpha [B, H, T, T]."""
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        return F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)


class Finish(nn.Module):
    """What is done to the mixed values of each head."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """`y` [B, H, T, d], `x` [B, T, D] -> y [B, H, T, d]."""
        return y


# EVOLVE-BLOCK-END


class Attention(nn.Module):
    """Fixed: the projections, the causal triangle and the sum over the values."""

    # False: the host leaves out its own sinusoidal positions. A class Prepare that brings others may say so.
    positions: bool = getattr(Prepare, "positions", True)

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        # In this order and before the slots, so that all programs draw the same projections from one seed.
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.core = Coefficients(dim, heads)
        self.prepare = Prepare(dim, heads)
        self.finish = Finish(dim, heads)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q, k, v = self.prepare(self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x)), x)
        y = torch.tril(self.core(q, k, x)) @ v
        return self.out(self.finish(y, x).transpose(1, 2).reshape(x.shape))
