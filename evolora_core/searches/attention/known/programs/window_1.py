"""A negative: every token sees itself alone."""

from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        return self.out(self.value(x))
