"""Adapters of many organelles in one forward pass: the host's matmul once for all rows, the low-rank part as a batched matmul.

Works on any Hugging Face causal language model whose projections are `nn.Linear`; nothing of the architecture is repeated here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from evolora_core.population.adapter import adapted_layers
from evolora_core.population.stack import Factors, Population

BARE = -1  # slot of rows that the host answers without adapter
PADDING = 2.0  # groups are padded to equal size while this costs less than twice the rows


@dataclass(frozen=True)
class Layout:
    """How the rows of a batch fall into groups of one slot each. Exactly one of three forms is used:

    grouped    bare rows first, then equal groups in the order of `present`: rows are viewed as [G, n·T, in], nothing is copied
    packed     rows are copied to [G, n] places (`take`; short groups repeat their first row) and back (`back`)
    gathered   very unequal groups: every row gets its own copy of its slot's factors (`group`)
    """

    present: Tensor  # [G] slots that occur, ascending
    bare: int  # rows without adapter
    size: int  # n, rows of the largest group
    rows: Tensor | None = None  # [adapted rows] their places in the batch; None = all
    take: Tensor | None = None  # [G·n]
    back: Tensor | None = None  # [adapted rows]
    group: Tensor | None = None  # [adapted rows]

    @classmethod
    def of(cls, slots: np.ndarray, device: torch.device) -> "Layout":
        """The cheapest layout for rows of these slots (-1 = bare host)."""

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        adapted = np.flatnonzero(slots != BARE)
        present, group, counts = np.unique(slots[adapted], return_inverse=True, return_counts=True)
        bare = len(slots) - len(adapted)
        size = int(counts.max(initial=0))
        common = {"present": tensor(present), "bare": bare, "size": size}
        if (counts == size).all() and (np.diff(slots) >= 0).all():
            return cls(**common)
        rows = None if not bare else tensor(adapted)
        if len(present) * size > PADDING * len(adapted):
            return cls(**common, rows=rows, group=tensor(group))
        order = np.argsort(group, kind="stable")
        starts = np.cumsum(counts) - counts
        place = np.arange(len(adapted)) - starts[group[order]]  # within the group
        # Short groups are filled up with their own first row, so that no value of another slot, NaN above all, gets in.
        take = np.repeat(adapted[order[starts]], size)
        back = np.empty(len(adapted), dtype=np.int64)
        back[order] = group[order] * size + place
        take[back] = adapted
        return cls(**common, rows=rows, take=tensor(take), back=tensor(back))

    def add(self, x: Tensor, y: Tensor, A: Tensor, B: Tensor) -> Tensor:
        """y + (x A ᵀ) B ᵀ, each row with its slot's factors: x [rows, T, in], y [rows, T, out], A [G, r, in], B [G, out, r]."""
        groups, length = len(A), x.shape[1]
        if self.take is None and self.group is None:
            inner = torch.bmm(x[self.bare :].reshape(groups, self.size * length, -1), A.mT)
            # In place: the linear layer's own output is not needed again, also not for gradients.
            y[self.bare :].view(groups, self.size * length, -1).baddbmm_(inner, B.mT)
            return y
        if self.take is not None:
            packed = x.index_select(0, self.take).view(groups, self.size * length, -1)
            delta = torch.bmm(torch.bmm(packed, A.mT), B.mT)
            delta = delta.view(groups * self.size, length, -1).index_select(0, self.back)
        else:
            own = x if self.rows is None else x.index_select(0, self.rows)
            delta = torch.bmm(torch.bmm(own, A.index_select(0, self.group).mT), B.index_select(0, self.group).mT)
        return y.add_(delta) if self.rows is None else y.index_add_(0, self.rows, delta)


class Attachment:
    """The adapters as attached to a model: `rows` says, before each forward pass, which slot each batch row uses."""

    def __init__(self, model: PreTrainedModel, population: Population | None) -> None:
        self._population = population
        self._dtype = model.dtype
        self._device = model.device
        self._layout: Layout | None = None
        self._factors: Factors = {}

    def rows(self, slots: np.ndarray | Tensor, weights: Tensor | None = None) -> Tensor:
        """Choose the slots `[rows]` of the next batches' rows, -1 = bare host; returns the slots that occur, ascending.

        `weights` `[G, D]` stand in for the population's rows of those slots: the leaf that training differentiates.
        """
        slots = slots.cpu().numpy() if isinstance(slots, Tensor) else np.asarray(slots)
        if self._population is None and (slots != BARE).any():
            raise ValueError(f"slot {int(slots.max())} was asked for, but there is no population")
        layout = Layout.of(slots.astype(np.int64), self._device)
        self._layout = layout if len(layout.present) else None
        self._factors = {}
        if self._layout is not None:
            self._factors = self._select(layout.present, weights)
        return layout.present

    def _select(self, present: Tensor, weights: Tensor | None) -> Factors:
        """The factors of some slots in the model's dtype, cut to the highest rank among them; the scale goes into B."""
        population = self._population
        assert population is not None
        chosen = population.factors(population.weights.index_select(0, present) if weights is None else weights)
        rank = max(int(population.ranks[present].max()), 1)
        scale = population.scale
        return {
            name: (A[:, :rank].to(self._dtype), (B[:, :, :rank] * scale).to(self._dtype))
            for name, (A, B) in chosen.items()
        }

    def hook(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """What the layer `name` gives for x, when the host alone gives y."""
        if self._layout is None:
            return y
        A, B = self._factors[name]
        return self._layout.add(x, y, A, B)


@contextmanager
def attached(model: PreTrainedModel, population: Population | None) -> Iterator[Attachment]:
    """Let a model's linear layers (all but the LM head) use the population's adapters; the model is as before on exit.

    Until `rows` is called the model is the bare host.
    """
    attachment = Attachment(model, population)

    def hook_of(name: str):  # noqa: ANN202
        def hook(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return attachment.hook(name, args[0], output)

        return hook

    handles = []
    if population is not None:
        handles = [layer.register_forward_hook(hook_of(name)) for name, layer in adapted_layers(model).items()]
    try:
        yield attachment
    finally:
        for handle in handles:
            handle.remove()
