"""The difference of two softmax attentions, so that what both see by chance cancels.

Source: Ye et al. 2024 (arXiv 2410.05258). A program does not know its layer: the start of lambda is 0.5 in all of them,
which their ablation found as good as their schedule by depth.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

START = 0.5


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.q1 = nn.Parameter(torch.randn(dim // heads) * 0.1)
        self.k1 = nn.Parameter(torch.randn(dim // heads) * 0.1)
        self.q2 = nn.Parameter(torch.randn(dim // heads) * 0.1)
        self.k2 = nn.Parameter(torch.randn(dim // heads) * 0.1)
        self.norm = nn.RMSNorm(2 * (dim // heads), eps=1e-5, elementwise_affine=False)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        pairs = self.heads // 2  # head i and i + pairs share a value of twice the width
        v = torch.cat([v[:, :pairs], v[:, pairs:]], dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        share = torch.exp((self.q1 * self.k1).sum()) - torch.exp((self.q2 * self.k2).sum()) + START
        y = (weights[:, :pairs] - share * weights[:, pairs:]) @ v
        y = (1 - START) * self.norm(y)
        return self.out(y.transpose(1, 2).reshape(x.shape))
