"""A negative: every token takes the mean of all values so far, whatever they are."""

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        seen = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return self.out(self.value(x).cumsum(dim=1) / seen)
