"""Softmax attention over the last 16 tokens: half of the default context.

Source: Beltagy et al. 2020 (arXiv 2004.05150); Jiang et al. 2023, Mistral (arXiv 2310.06825).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WINDOW = 16


class Attention(nn.Module):
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
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        place = torch.arange(x.shape[1], device=x.device)
        back = place[:, None] - place
        unseen = (back < 0) | (back >= WINDOW)
        y = F.softmax(scores.masked_fill(unseen, float("-inf")), dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))
