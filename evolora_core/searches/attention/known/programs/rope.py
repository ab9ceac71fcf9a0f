"""Rotary positions: queries and keys turn with their place, so that a score depends on the distance.

Source: Su et al. 2021 (arXiv 2104.09864); halves of the channels are paired, as in Llama.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotated(z: Tensor) -> Tensor:
    """`z` [B, H, T, d] with channel i and i + d/2 turned together by the angle t / 10000^(2i/d)."""
    half = z.shape[-1] // 2
    rate = 10000.0 ** (-torch.arange(half, device=z.device) / half)
    angle = torch.arange(z.shape[-2], device=z.device)[:, None] * rate
    cos, sin = torch.cos(angle), torch.sin(angle)
    left, right = z[..., :half], z[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


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
        q, k = rotated(self.split(self.query(x))), rotated(self.split(self.key(x)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ self.split(self.value(x))
        return self.out(y.transpose(1, 2).reshape(x.shape))
