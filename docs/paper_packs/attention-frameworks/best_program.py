# The best attention mechanism that the searches of the suite attention-frameworks-03fb41c2 found.
#
# Arm evolution-mixer, run seed 20, its best by the gain below: candidate 22 of its search (326244bf0a72fbd7), framework
# matrix-mixer.
# Gain over softmax attention at size l: +0.4687 nats of a held-out token, on texts and training seeds that the search
# never saw. The mean of the arm over its 8 run seeds is +0.2754.
# What it changes of softmax attention:
# - Prepare: No positions at all.
# - Mixer: No positions at all; queries and keys of unit scale (RMS norm, learned); what tokens ask and offer passes a
#   causal convolution over three tokens; weights of a token have unit length; each token says how much of the past is
#   forgotten (a gate for each head); heads mix their weights (learned); a learned matrix beside it that knows distances
#   alone (Toeplitz).
# - Finish: Output gated by a sigmoid of the layer's input, head by head.
#
# It needs torch alone. `python best_program.py FILE.txt` trains a small model with it and prints the loss.

"""Attention as a matrix over tokens: Y = M V in each head, M of a structured class.

Source: Hwang, Lahoti, Dao, Gu 2024 (arXiv 2407.09941). What stands in the block computes the matrix from the layer's
input, by parameters of its own; only its lower triangle counts. As it stands, this is causal softmax attention.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# EVOLVE-BLOCK-START
class Prepare(nn.Module):
    """No positions at all."""

    positions = False  # the host adds none of its own

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()

    def forward(self, v: Tensor, x: Tensor) -> Tensor:
        """`v` [B, H, T, d] and the layer's input `x` [B, T, D] -> v."""
        return v


class Mixer(nn.Module):
    """No positions at all; queries and keys of unit scale (RMS norm, learned); what tokens ask and offer passes a
    causal convolution over three tokens; weights of a token have unit length; each token says how much of the
    past is forgotten (a gate for each head); heads mix their weights (learned); a learned matrix beside it that
    knows distances alone (Toeplitz).
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.taps = nn.Parameter(torch.eye(3, 1).repeat(1, dim))  # at first the token itself
        self.norm_q = nn.RMSNorm(dim // heads, eps=1e-6)
        self.norm_k = nn.RMSNorm(dim // heads, eps=1e-6)
        self.forget = nn.Linear(dim, heads)
        nn.init.constant_(self.forget.bias, 3.0)  # at first a token forgets 5 %
        self.talk = nn.Parameter(torch.eye(heads))
        self.toeplitz = nn.Parameter(torch.zeros(heads, 32))  # by distance; those beyond share the last

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> M [B, H, T, T], or [H, T, T] where it does not depend on x."""
        before = F.pad(x, (0, 0, 2, 0))
        seen = self.taps[0] * x + self.taps[1] * before[:, 1:-1] + self.taps[2] * before[:, :-2]
        q, k = self.split(self.query(seen)), self.split(self.key(seen))
        q, k = self.norm_q(q), self.norm_k(k)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        steps = torch.arange(q.shape[-2], device=q.device)
        age = steps[:, None] - steps  # [T, T], negative in the future
        hidden = age < 0
        kept = F.logsigmoid(self.forget(x)).clamp(min=-8.0).cumsum(1).transpose(1, 2)  # [B, H, T]
        fade = (kept[..., :, None] - kept[..., None, :]).masked_fill(hidden, float("-inf"))
        scores = scores + fade
        weights = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        alpha = weights / weights.square().sum(-1, keepdim=True).sqrt()
        alpha = torch.einsum("gh,bhij->bgij", self.talk, alpha)
        return alpha + self.toeplitz[:, age.clamp(0, 31)].masked_fill(hidden, 0.0)


class Finish(nn.Module):
    """Output gated by a sigmoid of the layer's input, head by head."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, heads)

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """`y` [B, H, T, d], `x` [B, T, D] -> y [B, H, T, d]."""
        y = y * torch.sigmoid(self.gate(x)).transpose(1, 2)[..., None]  # one number for each head and token
        return y


# EVOLVE-BLOCK-END


class Attention(nn.Module):
    """Fixed: the projections of values and output, the causal triangle and the product."""

    # False: the host leaves out its own sinusoidal positions. A class Prepare that brings others may say so.
    positions: bool = getattr(Prepare, "positions", True)

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        # In this order and before the slots, so that all programs draw the same projections from one seed: a Mixer with
        # query and key should draw them first.
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.core = Mixer(dim, heads)
        self.prepare = Prepare(dim, heads)
        self.finish = Finish(dim, heads)

    def split(self, z: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, d]."""
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        y = torch.tril(self.core(x)) @ self.prepare(self.split(self.value(x)), x)
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
