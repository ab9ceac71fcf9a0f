"""Retention: products of queries and keys that turn and fade with the distance, without a softmax.

Source: Sun et al. 2023, RetNet (arXiv 2307.08621), parallel form. Their scalings of the scores are left out: the norm
of each head undoes them.
"""

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
        self.gate = nn.Linear(dim, dim)
        self.norm = nn.RMSNorm(dim // heads, eps=1e-5, elementwise_affine=False)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q, k, v = rotated(self.split(self.query(x))), rotated(self.split(self.key(x))), self.split(self.value(x))
        fade = torch.log(1 - 2.0 ** (-5 - torch.arange(self.heads, device=x.device)))[:, None, None]
        place = torch.arange(x.shape[1], device=x.device)
        decay = torch.tril(torch.exp(fade * (place[:, None] - place).clamp(min=0)))
        y = self.norm((q @ k.transpose(-2, -1) * decay) @ v)
        return self.out(y.transpose(1, 2).reshape(x.shape) * F.silu(self.gate(x)))
