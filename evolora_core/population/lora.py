"""Adapters of many organelles in one forward pass: one matmul of the host for all rows, a batched one for the rest.

Works on any Hugging Face causal language model whose projections are `nn.Linear`; repeats nothing of its architecture.
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


@dataclass(frozen=True)
class Layout:
    """How the rows of a batch fall into groups of one slot each, and the cheapest batched matmul for that.

    grouped    equal groups in ascending order: rows are viewed as [G, n·T, in], nothing is copied
    packed     rows are copied to [G, n] places (`take`; short groups repeat their first row) and back (`back`)
    gathered   every row gets a copy of its slot's factors (`group`): better for long rows and very unequal groups
    """

    present: Tensor  # [G] slots that occur, ascending
    bare: int  # rows without adapter
    size: int  # n, rows of the largest group
    group: Tensor  # [adapted rows] number of the row's slot in `present`
    rows: Tensor | None = None  # [adapted rows] their places in the batch; None = all after the bare ones
    take: Tensor | None = None  # [G·n] among the adapted rows; None = groups are equal and in order
    back: Tensor | None = None  # [adapted rows] places in `take`

    @classmethod
    def of(cls, slots: np.ndarray, device: torch.device) -> "Layout":
        """The layout of rows with these slots (-1 = bare host)."""

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        adapted = np.flatnonzero(slots != BARE)
        present, group, counts = np.unique(slots[adapted], return_inverse=True, return_counts=True)
        bare, size = len(slots) - len(adapted), int(counts.max(initial=0))
        rows = None if (adapted >= bare).all() else tensor(adapted)
        if rows is None and (counts == size).all() and (np.diff(group) >= 0).all():
            return cls(tensor(present), bare, size, tensor(group))
        order = np.argsort(group, kind="stable")
        starts = np.cumsum(counts) - counts
        # Short groups are filled up with their own first row, so that no value of another slot, NaN above all, gets in.
        take = np.repeat(order[starts], size)
        back = np.empty(len(adapted), dtype=np.int64)
        back[order] = group[order] * size + np.arange(len(adapted)) - starts[group[order]]
        take[back] = np.arange(len(adapted))
        return cls(tensor(present), bare, size, tensor(group), rows, tensor(take), tensor(back))

    def add(self, x: Tensor, y: Tensor, A: Tensor, B: Tensor) -> Tensor:
        """y + (x Aᵀ) Bᵀ, each row with its slot's factors; bare rows keep y, bit for bit. May change y in place.

        x `[rows, T, in]`, y `[rows, T, out]`, A `[G, r, in]`, B `[G, out, r]`.
        """
        if self.rows is not None:
            own = self._add(x.index_select(0, self.rows), y.index_select(0, self.rows), A, B)
            return y.index_copy_(0, self.rows, own)
        if self.bare:
            y[self.bare :] = self._add(x[self.bare :], y[self.bare :], A, B)
            return y
        return self._add(x, y, A, B)

    def _add(self, x: Tensor, y: Tensor, A: Tensor, B: Tensor) -> Tensor:
        """The same for the adapted rows alone."""
        length, (groups, rank, _) = x.shape[1], A.shape
        # A linear layer's output is not needed again; but autograd would copy it if it were changed through a view.
        baddbmm = torch.baddbmm if torch.is_grad_enabled() else Tensor.baddbmm_
        if self.take is None or self.back is None:
            inner = torch.bmm(x.reshape(groups, self.size * length, -1), A.mT)
            return baddbmm(y.view(groups, self.size * length, -1), inner, B.mT).view(y.shape)
        # Packing moves `length` tokens a place, gathering `rank` rows and columns of the factors a row.
        if len(self.take) * length < len(x) * rank:
            packed = x.index_select(0, self.take).view(groups, self.size * length, -1)
            delta = torch.bmm(torch.bmm(packed, A.mT), B.mT)
            return y.add_(delta.view(len(self.take), length, -1).index_select(0, self.back))
        inner = torch.bmm(x, A.index_select(0, self.group).mT)
        return baddbmm(y, inner, B.index_select(0, self.group).mT)


class Attachment:
    """The adapters as attached to a model: `rows` says, before each forward pass, which slot each batch row uses."""

    def __init__(self, model: PreTrainedModel, population: Population | None) -> None:
        self._population = population
        self._dtype = model.dtype
        self._device = model.device
        self._layout: Layout | None = None
        self._factors: Factors = {}
        self.rank = 0  # of the factors in use: the highest among the slots of the rows

    def rows(self, slots: np.ndarray | Tensor, weights: Tensor | None = None) -> Tensor:
        """Choose the slots `[rows]` of the next batches' rows, -1 = bare host; returns the slots that occur, ascending.

        `weights` `[G, D]` stand in for the population's rows of those slots: the leaf that training differentiates.
        """
        slots = slots.cpu().numpy() if isinstance(slots, Tensor) else np.asarray(slots)
        if self._population is None and (slots != BARE).any():
            raise ValueError(f"slot {int(slots.max())} was asked for, but there is no population")
        layout = Layout.of(slots.astype(np.int64), self._device)
        self._layout = layout if len(layout.present) else None
        self._factors, self.rank = {}, 0
        if self._layout is not None:
            self._factors = self._select(layout.present, weights)
        return layout.present

    def _select(self, present: Tensor, weights: Tensor | None) -> Factors:
        """The factors of some slots in the model's dtype, cut to the highest rank among them; the scale goes into B."""
        population = self._population
        assert population is not None
        chosen = population.factors(population.weights.index_select(0, present) if weights is None else weights)
        rank = self.rank = max(int(population.ranks[present].max()), 1)
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
