"""Adapters of many organelles in one forward pass: one matmul of the host for all rows, a batched one for the rest.

Works on any Hugging Face causal language model whose projections are `nn.Linear`; repeats nothing of its architecture.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.population import dense
from evolora_core.lora.population.low_rank import LowRank, add_low_rank
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Factors, Population

SLICED = 2**17  # numbers that a group reads and writes, from which on copying them costs a CPU more than a call each


@dataclass(frozen=True)
class Layout:
    """How the rows of a batch fall into groups of one slot each, and the fastest way through them.

    grouped    a batched matmul for equal groups, on views
    sliced     else one after the other on views, where groups are long (on a CPU) or gradients are wanted
    packed     a batched matmul for short unequal groups, copied to [G, n] places (`take`) and back
    gathered   every row gets a copy of its slot's factors (`group`): for very unequal groups
    """

    present: Tensor  # [G] slots that occur, ascending
    bare: int  # rows without adapter
    size: int  # n, rows of the largest group
    cuts: list[int]  # [G + 1] where the groups begin and end among the adapted rows
    group: Tensor  # [adapted rows] number of the row's slot in `present`, ascending
    rows: Tensor | None = None  # [adapted rows] their places in the batch by slot; None = all after the bare ones
    take: Tensor | None = None  # [G·n] among the adapted rows; None = groups are equal
    back: Tensor | None = None  # [adapted rows] places in `take`

    @classmethod
    def of(cls, slots: np.ndarray, device: torch.device) -> "Layout":
        """The layout of rows with these slots (-1 = bare host)."""

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        order = np.argsort(slots, kind="stable")
        bare = int((slots == HOST).sum())
        present, group, counts = np.unique(slots[order[bare:]], return_inverse=True, return_counts=True)
        size, cuts = int(counts.max(initial=0)), np.concatenate([[0], np.cumsum(counts)])
        rows = None if (np.diff(slots) >= 0).all() else tensor(order[bare:])
        known = (tensor(present), bare, size, cuts.tolist(), tensor(group), rows)
        if (counts == size).all():
            return cls(*known)
        # Short groups are filled up with their own first row, so that no value of another slot, NaN above all, gets in.
        take = np.repeat(cuts[:-1], size)
        back = group * size + np.arange(len(group)) - cuts[group]
        take[back] = np.arange(len(group))
        return cls(*known, tensor(take), tensor(back))

    def dense(self, tokens: int, rank: int) -> bool:
        """Whether so many tokens in these groups are better served by W + ΔW. No row may be bare or out of place."""
        return self.rows is None and not self.bare and dense.worthwhile(len(self.present), tokens, rank)

    def add(self, x: Tensor, y: Tensor, A: Tensor, B: Tensor, scale: float) -> Tensor:
        """y + scale · (x Aᵀ) Bᵀ, each row with its slot's factors; bare rows keep y, bit for bit. May change y in
        place.

        x `[rows, T, in]`, y `[rows, T, out]`, A `[G, r, in]`, B `[G, out, r]`.
        """
        if self.rows is not None:
            own = self._add(x.index_select(0, self.rows), y.index_select(0, self.rows), A, B, scale)
            return y.index_copy_(0, self.rows, own)
        if self.bare:
            y[self.bare :] = self._add(x[self.bare :], y[self.bare :], A, B, scale)
            return y
        return self._add(x, y, A, B, scale)

    def _add(self, x: Tensor, y: Tensor, A: Tensor, B: Tensor, scale: float) -> Tensor:
        """The same for the adapted rows alone."""
        length, rank = x.shape[1], A.shape[1]
        long = x.device.type == "cpu" and len(x) * length * (x.shape[2] + y.shape[2]) >= SLICED * len(A)
        if self.take is None or self.back is None or long or torch.is_grad_enabled():
            cuts = None if self.take is None else [cut * length for cut in self.cuts]
            if torch.is_grad_enabled():
                result: Tensor = LowRank.apply(y, x, A, B, scale, cuts)
                return result
            add_low_rank(y, x, A, B, scale, cuts)
            return y
        # Packing moves `length` tokens a place, gathering `rank` rows and columns of the factors a row.
        if len(self.take) * length < len(x) * rank:
            packed = x.index_select(0, self.take).view(len(A), self.size * length, -1)
            delta = torch.bmm(torch.bmm(A, packed.mT).mul_(scale).mT, B.mT)
            return y.add_(delta.view(len(self.take), length, -1).index_select(0, self.back))
        inner = torch.bmm(A.index_select(0, self.group), x.mT).mul_(scale)
        return y.baddbmm_(inner.mT, B.index_select(0, self.group).mT)


class Attachment:
    """The adapters as attached to a model: `rows` says, before each forward pass, which slot each batch row uses."""

    def __init__(self, model: PreTrainedModel, population: Population | None) -> None:
        self._population = population
        self._dtype = model.dtype
        self._device = model.device
        self._layout: Layout | None = None
        self._factors: Factors = {}
        self._rows = 0
        self.rank = 0  # of the factors in use: the highest among the slots of the rows

    def rows(self, slots: np.ndarray | Tensor, weights: Tensor | None = None) -> Tensor:
        """Choose the slots `[rows]` of the next batches' rows, -1 = bare host; returns the slots that occur, ascending.

        `weights` `[G, D]` stand in for the population's rows of those slots: the leaf that training differentiates.
        """
        slots = slots.cpu().numpy() if isinstance(slots, Tensor) else np.asarray(slots)
        if self._population is None and (slots != HOST).any():
            raise ValueError(f"slot {int(slots.max())} was asked for, but there is no population")
        layout = Layout.of(slots.astype(np.int64), self._device)
        self._rows = len(slots)
        self._layout = layout if len(layout.present) else None
        self._factors, self.rank = {}, 0
        if self._layout is not None:
            self._factors = self._select(layout.present, weights)
        return layout.present

    def _select(self, present: Tensor, weights: Tensor | None) -> Factors:
        """The factors of some slots in the model's dtype, cut to the highest rank among them; views if possible."""
        population = self._population
        assert population is not None
        if weights is None:
            first, last = int(present[0]), int(present[-1])
            adjacent = last - first + 1 == len(present)
            own = slice(first, last + 1) if adjacent else present.to(population.device)
            weights = population.weights[own].to(self._device)
        rank = self.rank = max(int(population.ranks[present.to(population.device)].max()), 1)
        return {
            name: (A[:, :rank].to(self._dtype), B[:, :, :rank].to(self._dtype))
            for name, (A, B) in population.factors(weights).items()
        }

    def linear(self, name: str, layer: nn.Linear, x: Tensor) -> Tensor:
        """What the layer `name` gives for x, `[rows, T, in]`, or `[1, T, in]` where each token is a row."""
        if self._layout is None or self._population is None:
            return functional.linear(x, layer.weight, layer.bias)
        A, B = self._factors[name]
        scale, layout = self._population.scale, self._layout
        own = x.view(self._rows, -1, x.shape[-1])
        length = own.shape[1]
        if layout.dense(self._rows * length, self.rank) and self._dtype == torch.float32 and torch.is_grad_enabled():
            cuts = [cut * length for cut in layout.cuts]
            y = dense.Dense.apply(own, layer.weight, layer.bias, A, B, scale, cuts)
        else:
            y = layout.add(own, functional.linear(own, layer.weight, layer.bias), A, B, scale)
        result: Tensor = y.view(*x.shape[:-1], -1)
        return result


@contextmanager
def attached(model: PreTrainedModel, population: Population | None) -> Iterator[Attachment]:
    """Let a model's linear layers (all but the LM head) use the population's adapters; the model is as before on exit.

    Until `rows` is called the model is the bare host.
    """
    attachment = Attachment(model, population)
    layers = adapted_layers(model) if population is not None else {}
    before = {name: layer.__dict__.get("forward") for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.__dict__["forward"] = partial(attachment.linear, name, layer)
    try:
        yield attachment
    finally:
        for name, layer in layers.items():
            del layer.__dict__["forward"]
            if before[name] is not None:
                layer.__dict__["forward"] = before[name]
