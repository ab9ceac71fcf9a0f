"""The fixed language model around an attention mechanism.

A decoder as the first system had it: token embedding tied with the output, sinusoidal positions added, pre-norm blocks
x = x + attention(LN(x)), x = x + FFN(LN(x)), FFN = Linear(d, 4d), GELU, Linear(4d, d), a final LayerNorm, no dropout
(it had 0.1, which at a few thousand steps on a stream of text only slows learning). It makes no mask: a program is
causal by itself.

The embedding is drawn with a standard deviation of 1 / sqrt(d), where the first system had .02 at every width, and
multiplied by sqrt(d) where the tokens come in (Vaswani et al. 2017, part 3.4). Positions have an amplitude of 1.
With small tokens beside them models stay for hundreds of steps on a plateau, where more size does not help
(docs/decisions.md).

It knows nothing of programs: `attention` is whatever builds a module from (dim, heads).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evolora_core.engine.rng import key
from evolora_core.searches.attention.host.sizes import Size

Mechanism = Callable[[int, int], nn.Module]  # (dim, heads) -> module from [B, T, D] to [B, T, D]


class Decoder(nn.Module):
    """Tokens [B, T] -> logits [B, T, vocab].

    A mechanism whose class says `positions = False` gets no sinusoidal positions: it brings its own, or does without.
    """

    def __init__(self, vocab: int, dim: int, layers: int, heads: int, attention: Mechanism) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, attention(dim, heads)) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.positions = all(getattr(block.attention, "positions", True) for block in self.blocks)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """`tokens` [B, T] -> logits [B, T, vocab]."""
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        if self.positions:
            x = x + sinusoids(tokens.shape[1], x.shape[2], x.device)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight)


class Block(nn.Module):
    """x = x + attention(LN(x)); x = x + FFN(LN(x))."""

    def __init__(self, dim: int, attention: nn.Module) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(dim)
        self.attention = attention
        self.before_ffn = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, D] -> [B, T, D]."""
        x = x + self.attention(self.before_attention(x))
        added: Tensor = x + self.ffn(self.before_ffn(x))
        return added


def build(attention: Mechanism, size: Size, vocab: int, seed: int) -> Decoder:
    """A model with `attention` in each layer, on the CPU.

    The host's parameters are drawn from streams of (seed, name of the parameter), those of layer i's attention after
    the generator was set from (seed, i). So a program that has parameters of its own, drawn after the usual ones,
    shifts none of the others, and two programs differ by what they are. The global generator is left as it was.
    """
    layer = iter(range(size.layers))

    def seeded(dim: int, heads: int) -> nn.Module:
        torch.default_generator.manual_seed(key(seed, 0, next(layer), "attention"))
        return attention(dim, heads)

    with torch.random.fork_rng(devices=[]):
        model = Decoder(vocab, size.dim, size.layers, size.heads, seeded)
    for name, module in model.named_modules():
        if ".attention" in name:
            continue
        if isinstance(module, nn.Linear):
            bound = 1 / math.sqrt(module.in_features)  # as torch itself does it
            for part, parameter in module.named_parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=_stream(seed, f"{name}.{part}"))
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=size.dim**-0.5, generator=_stream(seed, name))
    return model


def _stream(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(key(seed, 0, 0, "host", name))


@lru_cache(maxsize=16)
def sinusoids(length: int, dim: int, device: torch.device) -> Tensor:
    """Positions [length, dim]: sin(p / 10000^(2i/d)) at 2i and the cosine at 2i + 1. Vaswani et al. 2017."""
    with torch.inference_mode(False):  # a tensor made in inference mode could not be used in training later
        place = torch.arange(length, dtype=torch.float32)[:, None]
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        return torch.stack([torch.sin(place * rate), torch.cos(place * rate)], dim=-1).flatten(1)[:, :dim].to(device)
