"""What one training step of a mechanism costs at a size: counted on the real model, never timed.

`torch.utils.flop_counter` counts products of matrices and convolutions. It counts neither other operations that do
much work, such as linear systems, which some mechanisms solve instead (`operations.py`), nor work on single elements.
Both are added, so that a program cannot hide its work there. The fused attention of torch is run as plain products.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from evolora_core.searches.attention.host.model import Decoder, Mechanism, build, sinusoids
from evolora_core.searches.attention.host.operations import FORMULAS
from evolora_core.searches.attention.host.sizes import Size, non_embedding
from evolora_core.searches.attention.host.training import loss_of


@dataclass(frozen=True)
class Cost:
    """Operations of one training step, forward and backward, without those of the optimizer."""

    products: int  # operations of products of matrices, convolutions and whatever `operations.py` counts
    elements: int  # elements written by everything else, views excepted
    parameters: int  # without the embedding

    @property
    def flops(self) -> int:
        """All operations."""
        return self.products + self.elements


def cost_of_step(attention: Mechanism, size: Size, vocab: int, batch: int, context: int) -> Cost:
    """What a step of a new model costs."""
    tokens = torch.arange(batch * (context + 1)).view(batch, context + 1) % vocab
    return cost_of(build(attention, size, vocab, seed=0), tokens)


def cost_of(model: Decoder, batch: Tensor) -> Cost:
    """Take one step without an update on `batch` [B, context + 1] and count. Leaves the model in training mode."""
    model.train()
    model.zero_grad(set_to_none=True)  # a gradient that is there is added to, which a first step does not
    products, elements = _counted(lambda: loss_of(model, batch).backward(), model, batch[:, :-1])
    return Cost(products, elements, non_embedding(model))


def operations_of_forward(model: Decoder, tokens: Tensor, training: bool) -> int:
    """What logits for `tokens` [B, T] cost, as they are made in training or as those who ask for answers get them.
    Leaves the model in that mode.
    """
    model.train(training)
    with torch.set_grad_enabled(training):
        return sum(_counted(lambda: model(tokens), model, tokens))


def _counted(work: Callable[[], object], model: Decoder, tokens: Tensor) -> tuple[int, int]:
    """Products and elements of what a model does with tokens [B, T]."""
    # Made once and kept: a first call would count more than a second.
    sinusoids(tokens.shape[1], model.embedding.embedding_dim, tokens.device)
    counter = FlopCounterMode(display=False, custom_mapping=FORMULAS)
    with sdpa_kernel(SDPBackend.MATH), Elements() as elements, counter:
        work()
    return counter.get_total_flops(), elements.written


class Elements(TorchDispatchMode):
    """Counts the elements that operations write which `FlopCounterMode`, entered within it, does not count; of a
    reduction of a view that repeats elements, as a sum of `unfold` is, those that it reads.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.written = 0
        counted = {*FlopCounterMode(display=False).flop_registry, *FORMULAS}
        self._skipped = {*counted, torch.ops.aten._unsafe_view}  # the last is a view by another name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket not in self._skipped and not func.is_view:
            written = sum(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
            reduced = tree_leaves(args) if torch.Tag.reduction in func.tags else []
            read = [leaf.numel() for leaf in reduced if isinstance(leaf, Tensor) and _repeats(leaf)]
            self.written += max([written, *read])
        return out


def _repeats(tensor: Tensor) -> bool:
    """Whether a view shows more elements than lie between its first and its last one."""
    if tensor.layout != torch.strided or not tensor.numel():
        return False
    reach = sum((side - 1) * stride for side, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.numel() > reach + 1
