"""Queries and keys are normalised in each head and scaled by learned factors.

Source: Henry et al. 2020 (arXiv 2010.04245); RMS norms as in Qwen3 (arXiv 2505.09388).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.query_norm = nn.RMSNorm(dim // heads, eps=1e-6)
        self.key_norm = nn.RMSNorm(dim // heads, eps=1e-6)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q, k = self.query_norm(self.split(self.query(x))), self.key_norm(self.split(self.key(x)))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ self.split(self.value(x))
        return self.out(y.transpose(1, 2).reshape(x.shape))
