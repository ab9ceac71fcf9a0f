"""Softmax attention of queries, keys and values that were each mixed with their last two predecessors.

Source: So et al. 2021, Primer (arXiv 2109.08668): a causal depthwise convolution of 3, which starts at 1/2, 1/6, 1/6 as
theirs.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Convolution(nn.Module):
    """Each channel with its own weights for this token and the two before."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1 / 2, 1 / 6, 1 / 6])[:, None].repeat(1, dim))

    def forward(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        padded = F.pad(z, (0, 0, 2, 0))
        here, before, earlier = self.weight
        return here * z + before * padded[:, 1:-1] + earlier * padded[:, :-2]


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.of_query, self.of_key, self.of_value = Convolution(dim), Convolution(dim), Convolution(dim)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q = self.split(self.of_query(self.query(x)))
        k = self.split(self.of_key(self.key(x)))
        v = self.split(self.of_value(self.value(x)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))
