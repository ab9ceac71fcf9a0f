"""Scores fall linearly with the distance, by a slope of each head; no other positions.

Source: Press, Smith, Lewis 2021 (arXiv 2108.12409).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), … for n = `heads`; where that is no power of two, the missing ones from twice as many."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    return first + [2.0 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)]


class Attention(nn.Module):
    positions = False

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        place = torch.arange(x.shape[1], device=x.device)
        back = (place[:, None] - place) * torch.tensor(slopes(self.heads), device=x.device)[:, None, None]
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) - back
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))
