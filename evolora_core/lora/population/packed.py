"""Rows of different lengths one after the other, without padding: only attention sees them apart.

Layers other than attention look at one token at a time, so that all rows can be one row of tokens to them. Attention
takes rows of like length together and pads them among themselves.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evolora_core.errors import HostError
from evolora_core.lora.population.attention import attend

NAME = "evolora_packed"  # as transformers calls our attention while a model runs packed
LOOSE = 1.25  # padded tokens for each real one, up to which rows are taken together


@dataclass(frozen=True)
class Bucket:
    """Rows that attention takes together: `take` `[rows · width]` are their tokens, each row filled up with its first
    one; `real` `[tokens]` are the places in `take` that are no filling, and `tokens` `[tokens]` what stands there.
    """

    rows: int
    width: int
    take: Tensor
    real: Tensor
    tokens: Tensor


@dataclass(frozen=True)
class Packing:
    """How rows of some lengths lie one after the other.

    lengths   [rows]
    starts    [rows] where each row begins
    positions [1, tokens] of each token in its row
    buckets   the rows as attention takes them
    """

    lengths: Tensor
    starts: Tensor
    positions: Tensor
    buckets: tuple[Bucket, ...]

    @classmethod
    def of(cls, lengths: np.ndarray, device: torch.device) -> "Packing":
        """The packing of rows of these lengths."""

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        starts = np.cumsum(lengths) - lengths
        buckets = []
        for rows in _alike(lengths):
            width = int(lengths[rows].max())
            column = np.arange(width)
            there = column < lengths[rows, None]
            take = np.where(there, starts[rows, None] + column, starts[rows, None])
            buckets.append(
                Bucket(len(rows), width, *map(tensor, (take.reshape(-1), np.flatnonzero(there), take[there])))
            )
        positions = np.arange(lengths.sum()) - np.repeat(starts, lengths)
        return cls(tensor(lengths), tensor(starts), tensor(positions)[None], tuple(buckets))

    def pack(self, padded: Tensor) -> Tensor:
        """The real tokens `[1, tokens]` of right-padded rows `[rows, width]`."""
        real = torch.arange(padded.shape[1], device=padded.device) < self.lengths[:, None]
        return padded[real][None]

    def spread(self, rows: Tensor) -> Tensor:
        """Something of each row `[rows]` for each of its tokens, `[tokens]`."""
        return rows.repeat_interleave(self.lengths, output_size=self.positions.shape[1])


def _alike(lengths: np.ndarray) -> list[np.ndarray]:
    """Row numbers by length, cut where a bucket would be padded too much."""
    order = np.argsort(-lengths, kind="stable")
    found = []
    while len(order):
        own = lengths[order]
        loose = own[0] * np.arange(1, len(own) + 1) > LOOSE * own.cumsum()
        end = int(loose.argmax()) or len(order)  # the first row is never loose by itself
        found.append(order[:end])
        order = order[end:]
    return found


def packs(model: PreTrainedModel) -> bool:
    """Whether a model computes alike on packed rows: causal attention over all tokens before, by transformers'
    interface, is the only thing in it that looks beyond a token.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    capped = getattr(config, "attn_logit_softcapping", None)
    windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return (
        bool(getattr(model, "_supports_attention_backend", False))
        and model.config._attn_implementation == "sdpa"
        and kinds == {"full_attention"}
        and not (capped or windowed)
    )


@contextmanager
def packed(model: PreTrainedModel, packing: Packing | None) -> Iterator[None]:
    """Let the attention of a model that `packs` keep the packed rows apart, on the way back too; without a packing the
    model is as it was.

    Raises HostError where a layer did not ask for attention in the way that transformers has for it.
    """
    if packing is None:
        yield
        return
    config = model.config
    usual, layers = config._attn_implementation, config.get_text_config().num_hidden_layers
    called: list[None] = []

    def attention(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, None]:
        called.append(None)
        return _attention(packing, query, key, value, options.get("scaling")), None

    ALL_ATTENTION_FUNCTIONS[NAME] = attention
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
        del ALL_ATTENTION_FUNCTIONS[NAME]
    if len(called) % layers or not called:
        raise HostError(
            f"{type(model).__name__}: {len(called)} of its {layers} layers attend as transformers' own do; name "
            "another host"
        )


def _attention(packing: Packing, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
    """Causal attention within each row of query, key and value `[1, heads, tokens, d]`; `[1, tokens, heads, d]`."""
    found = []
    parts = [_Spread.apply(packing.buckets, tensor[0].transpose(0, 1)) for tensor in (query, key, value)]
    grouped = query.shape[1] != key.shape[1]
    for q, k, v in zip(*parts, strict=True):
        answer = attend(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=True,
            scale=scale,
            enable_gqa=grouped,
        )
        found.append(answer.transpose(1, 2))
    result: Tensor = _Gather.apply(packing.buckets, *found)[None]
    return result


class _Spread(torch.autograd.Function):
    """Tokens `[tokens, heads, d]` as padded rows `[rows, width, heads, d]` of each bucket. Filling has no gradient."""

    @staticmethod
    def forward(ctx: Any, buckets: Sequence[Bucket], x: Tensor) -> tuple[Tensor, ...]:
        ctx.buckets, ctx.shape = buckets, x.shape
        return tuple(x.index_select(0, own.take).view(own.rows, own.width, *x.shape[1:]) for own in buckets)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, _together(ctx.buckets, gradients)


class _Gather(torch.autograd.Function):
    """The way back: real tokens of the buckets' rows, in their places `[tokens, heads, d]`."""

    @staticmethod
    def forward(ctx: Any, buckets: Sequence[Bucket], *rows: Tensor) -> Tensor:
        ctx.buckets = buckets
        return _together(buckets, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        found = []
        for own in ctx.buckets:
            spread = gradient.new_zeros(own.rows * own.width, *gradient.shape[1:])
            spread.index_copy_(0, own.real, gradient.index_select(0, own.tokens))
            found.append(spread.view(own.rows, own.width, *gradient.shape[1:]))
        return None, *found


def _together(buckets: Sequence[Bucket], rows: Sequence[Tensor]) -> Tensor:
    """What the buckets' rows `[rows, width, heads, d]` say of each token, `[tokens, heads, d]`."""
    first = rows[0]
    found = first.new_empty(sum(len(own.tokens) for own in buckets), *first.shape[2:])
    for own, part in zip(buckets, rows, strict=True):
        found.index_copy_(0, own.tokens, part.reshape(-1, *part.shape[2:]).index_select(0, own.real))
    return found
