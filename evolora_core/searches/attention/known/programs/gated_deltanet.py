"""The gated delta rule: a fading memory corrects what it holds for a key, then answers the query.

Source: Yang, Kautz, Hatamizadeh 2024 (arXiv 2412.06464). S_t = a_t S_(t-1) + b_t (v_t - a_t S_(t-1) k_t) k_t^T and
y_t = S_t q_t, all tokens by one triangular system. Keys have 3/4 of the width, as theirs; convolutions are of 3, not 4.
As in their code a_t = exp(-A softplus(…)), with A up to 16 and a softplus of 0.001 to 0.1 where x is 0."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Convolution(nn.Module):
    """Each channel with its own weights for this token and the two before, then SiLU."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, dim).uniform_(-1 / math.sqrt(3), 1 / math.sqrt(3)))

    def forward(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        padded = F.pad(z, (0, 0, 2, 0))
        here, before, earlier = self.weight
        return F.silu(here * z + before * padded[:, 1:-1] + earlier * padded[:, :-2])


def gated_delta(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, rate: Tensor) -> Tensor:
    """`q`, `k`, `v` [B, H, T, d], `log_decay` and `rate` [B, H, T] -> [B, H, T, d]."""
    total = log_decay.cumsum(dim=-1)
    future = torch.ones(k.shape[-2], k.shape[-2], dtype=torch.bool, device=k.device).triu(1)
    decay = torch.exp((total[..., :, None] - total[..., None, :]).masked_fill(future, float("-inf")))
    system = rate[..., None] * (k @ k.transpose(-2, -1)) * decay  # only what lies below its diagonal is read
    written = torch.linalg.solve_triangular(system, rate[..., None] * v, upper=False, unitriangular=True)
    return (q @ k.transpose(-2, -1) * decay) @ written / math.sqrt(q.shape[-1])


class Attention(nn.Module):
    positions = False

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        keys = 3 * dim // 4
        self.value = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.query = nn.Linear(dim, keys, bias=False)
        self.key = nn.Linear(dim, keys, bias=False)
        self.gate = nn.Linear(dim, dim, bias=False)
        self.rate = nn.Linear(dim, heads, bias=False)
        self.fade = nn.Linear(dim, heads)
        self.log_speed = nn.Parameter(torch.empty(heads).uniform_(0.01, 16).log())
        self.fade.bias = nn.Parameter(torch.empty(heads).uniform_(math.log(0.001), math.log(0.1)).exp().expm1().log())
        self.norm = nn.RMSNorm(dim // heads, eps=1e-6)
        self.of_query, self.of_key, self.of_value = Convolution(keys), Convolution(keys), Convolution(dim)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q = F.normalize(self.split(self.of_query(self.query(x))), dim=-1)
        k = F.normalize(self.split(self.of_key(self.key(x))), dim=-1)
        v = self.split(self.of_value(self.value(x)))
        log_decay = -torch.exp(self.log_speed) * F.softplus(self.fade(x))
        rate = torch.sigmoid(self.rate(x)).transpose(1, 2)
        y = self.norm(gated_delta(q, k, v, log_decay.transpose(1, 2), rate))
        return self.out(y.transpose(1, 2).reshape(x.shape) * F.silu(self.gate(x)))
