"""Linear attention: the kernel is a product of features elu + 1, here in its parallel form.

Source: Katharopoulos et al. 2020 (arXiv 2006.16236).
"""

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

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q, k = F.elu(self.split(self.query(x))) + 1, F.elu(self.split(self.key(x))) + 1
        weights = torch.tril(q @ k.transpose(-2, -1))
        y = weights @ self.split(self.value(x)) / weights.sum(dim=-1, keepdim=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))
