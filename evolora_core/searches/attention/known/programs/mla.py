"""Multi-head latent attention: keys and values come from one small latent, positions from a part that turns.

Source: DeepSeek-AI 2024 (arXiv 2405.04434), without the compression of queries, as in its small model.
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
        self.head = dim // heads
        self.turning = 2 * (self.head // 4)  # channels of a query that turn; the others compare contents
        self.resting = self.head - self.turning
        self.latent = dim // 2
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.down = nn.Linear(dim, self.latent + self.turning)
        self.norm = nn.RMSNorm(self.latent, eps=1e-6)
        self.up = nn.Linear(self.latent, heads * (self.resting + self.head))

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        batch, length = x.shape[:2]
        q = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        q = torch.cat([q[..., : self.resting], rotated(q[..., self.resting :])], dim=-1)
        latent, turning = self.down(x).split([self.latent, self.turning], dim=-1)
        both = self.up(self.norm(latent)).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = both.split([self.resting, self.head], dim=-1)
        turned = rotated(turning[:, None]).expand(-1, self.heads, -1, -1)  # one for all heads
        k = torch.cat([k, turned], dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        y = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))
