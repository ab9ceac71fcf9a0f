"""Grouped queries: each head of keys and values serves two heads of queries.

Source: Ainslie et al. 2023 (arXiv 2305.13245).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.head = dim // heads
        self.groups = max(1, heads // 2)
        self.value = nn.Linear(dim, self.groups * self.head)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, self.groups * self.head)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, n d] -> [B, n, T, d]."""
        return z.view(z.shape[0], z.shape[1], -1, self.head).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        times = self.heads // self.groups
        q = self.split(self.query(x))
        k = self.split(self.key(x)).repeat_interleave(times, dim=1)
        v = self.split(self.value(x)).repeat_interleave(times, dim=1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))
