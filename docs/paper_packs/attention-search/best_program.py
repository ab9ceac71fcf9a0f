# The best attention mechanism that the searches of the suite attention-search-ba6fcab6 found.
#
# Arm evolution, run seed 0, its best by the gain below: candidate 22 of its search (be4782e5a8b6a1c6), framework
# coefficient-dynamics.
# Gain over softmax attention at size xl: +0.3804 nats of a held-out token, on texts and training seeds that the search
# never saw. The mean of the arm over its 8 run seeds is +0.3423.
# What it changes of softmax attention:
# - Prepare: No positions at all; queries and keys of unit scale (RMS norm, learned); keys and values take learned
#   shares of the token before; values gated by their own token, head by head.
# - Coefficients: The square of the positive part of 1 + score; weights are divided by their sum and one more, so that a
#   token may take less than all; each token takes its own direction out of the keys before it (DeltaNet); a learned
#   temperature for each head; a learned share of each token's own value.
# - Finish: Output gated by SiLU of the layer's input, channel by channel (low rank).
#
# It needs torch alone. `python best_program.py FILE.txt` trains a small model with it and prints the loss.

"""Attention as coefficients: y_i = sum over j <= i of alpha_ij v_j (Sieber et al. 2025, arXiv 2510.09389).

What stands in the block finds the coefficients from queries and keys and never sees the values, so that whatever it
does, the output is a sum of values that lie in the past. As it stands, this is causal softmax attention.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# EVOLVE-BLOCK-START
class Prepare(nn.Module):
    """No positions at all; queries and keys of unit scale (RMS norm, learned); keys and values take learned shares
    of the token before; values gated by their own token, head by head.
    """

    positions = False  # the host adds none of its own

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.shift_k = nn.Parameter(torch.full((heads, 1, dim // heads), 0.25))  # share of the token before
        self.shift_v = nn.Parameter(torch.full((heads, 1, dim // heads), 0.25))  # share of the token before
        self.norm_q = nn.RMSNorm(dim // heads, eps=1e-6)
        self.norm_k = nn.RMSNorm(dim // heads, eps=1e-6)
        self.gate_v = nn.Linear(dim, heads)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`q`, `k`, `v` [B, H, T, d] and the layer's input `x` [B, T, D] -> q, k, v."""
        k = k + self.shift_k * (F.pad(k, (0, 0, 1, 0))[..., :-1, :] - k)
        v = v + self.shift_v * (F.pad(v, (0, 0, 1, 0))[..., :-1, :] - v)
        q, k = self.norm_q(q), self.norm_k(k)
        v = v * (2 * torch.sigmoid(self.gate_v(x))).transpose(1, 2)[..., None]  # about 1 at first
        return q, k, v


class Coefficients(nn.Module):
    """The square of the positive part of 1 + score; weights are divided by their sum and one more, so that a token
    may take less than all; each token takes its own direction out of the keys before it (DeltaNet); a learned
    temperature for each head; a learned share of each token's own value.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.step = nn.Linear(dim, heads)
        self.own = nn.Parameter(torch.full((heads, 1, 1), -2.0))  # a share of 12 % at first

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        """`q`, `k` [B, H, T, d], `x` [B, T, D] -> alpha [B, H, T, T]."""
        q = q * self.temperature / math.sqrt(q.shape[-1])
        # q_i (I - step_i u_i u_i^T) ... (I - step_j+1 u_j+1 u_j+1^T) u_j for all i, j: one triangular system.
        size = k.norm(dim=-1, keepdim=True)
        unit = k / (size + 1e-6)
        step = torch.sigmoid(self.step(x)).transpose(1, 2)[..., None]  # [B, H, T, 1]
        overlap = torch.tril(step * unit @ unit.transpose(-2, -1), -1)
        asked = torch.tril(q @ unit.transpose(-2, -1))
        scores = torch.linalg.solve_triangular(overlap, asked, upper=False, left=False, unitriangular=True)
        scores = scores * size.transpose(-2, -1)
        hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        weights = F.relu(1 + scores).square().masked_fill(hidden, 0.0)
        alpha = weights / (weights.sum(-1, keepdim=True) + 1)
        own = torch.sigmoid(self.own)
        return (1 - own) * alpha + own * torch.eye(q.shape[-2], device=q.device)


class Finish(nn.Module):
    """Output gated by SiLU of the layer's input, channel by channel (low rank)."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        # Of low rank, as in Kimi Linear: a whole matrix alone is 8 % more parameters.
        self.gate = nn.Sequential(nn.Linear(dim, dim // 4, bias=False), nn.Linear(dim // 4, dim, bias=False))

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """`y` [B, H, T, d], `x` [B, T, D] -> y [B, H, T, d]."""
        gate = F.silu(self.gate(x))  # [B, T, D]
        return y * gate.view(*gate.shape[:2], y.shape[1], -1).transpose(1, 2)


# EVOLVE-BLOCK-END


class Attention(nn.Module):
    """Fixed: the projections, the causal triangle and the sum over the values."""

    # False: the host leaves out its own sinusoidal positions. A class Prepare that brings others may say so.
    positions: bool = getattr(Prepare, "positions", True)

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        # In this order and before the slots, so that all programs draw the same projections from one seed.
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.core = Coefficients(dim, heads)
        self.prepare = Prepare(dim, heads)
        self.finish = Finish(dim, heads)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        q, k, v = self.prepare(self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x)), x)
        y = torch.tril(self.core(q, k, x)) @ v
        return self.out(self.finish(y, x).transpose(1, 2).reshape(x.shape))


if __name__ == "__main__":  # a small language model of bytes around one layer of it
    import sys; torch.manual_seed(0)
    text = torch.tensor(list(open(sys.argv[1], "rb").read()))
    token, place, layer, head = nn.Embedding(256, 64), nn.Embedding(64, 64), Attention(64, 4), nn.Linear(64, 256)
    optimizer = torch.optim.AdamW(nn.ModuleList([token, place, layer, head]).parameters(), lr=0.002)
    for _ in range(300):
        rows = text[torch.randint(len(text) - 64, (16, 1)) + torch.arange(65)]  # 16 rows of 64 bytes, and one more each
        x = token(rows[:, :-1]) + place.weight * getattr(Attention, "positions", True)
        (loss := F.cross_entropy(head(x + layer(F.layer_norm(x, (64,)))).mT, rows[:, 1:])).backward()
        optimizer.step(), optimizer.zero_grad()
    print(f"{loss.item():.3f} nats a byte after 300 steps")
