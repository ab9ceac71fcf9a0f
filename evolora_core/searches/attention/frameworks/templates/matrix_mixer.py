"""Attention as a matrix over tokens: Y = M V in each head, M of a structured class.

Source: Hwang, Lahoti, Dao, Gu 2024 (arXiv 2407.09941). What stands in the block computes the matrix from the layer's
input, by parameters of its own; only its lower triangle counts. As it stands, this is causal softmax attention.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# EVOLVE-BLOCK-START
class Prepare(nn.Module):
    """What is done to the values before they are mixed."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()

    def forward(self, v: Tensor, x: Tensor) -> Tensor:
        """`v` [B, H, T, d] and the layer's input `x` [B, T, D] -> v."""
        return v


class Mixer(nn.Module):
    """M = softmax(q k / sqrt(d)) over the past."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> M [B, H, T, T], or [H, T, T] where it does not depend on x."""
        q, k = self.split(self.query(x)), self.split(self.key(x))
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
    """Fixed: the projections of values and output, the causal triangle and the product."""

    # False: the host leaves out its own sinusoidal positions. A class Prepare that brings others may say so.
    positions: bool = getattr(Prepare, "positions", True)

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        # In this order and before the slots, so that all programs draw the same projections from one seed: a Mixer with
        # query and key should draw them first.
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.core = Mixer(dim, heads)
        self.prepare = Prepare(dim, heads)
        self.finish = Finish(dim, heads)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        y = torch.tril(self.core(x)) @ self.prepare(self.split(self.value(x)), x)
        return self.out(self.finish(y, x).transpose(1, 2).reshape(x.shape))
