"""Low-rank products of groups of adjacent tokens: batched for groups of one length, else group by group on views.

What is as narrow as a rank stands on the left of every matmul: a CPU's libraries take two to six times as long where it
is the result's last side (docs/performance.md).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

Cuts = Sequence[int] | None  # [G + 1] where groups begin and end; None: all have one length


def add_low_rank(y: Tensor, x: Tensor, A: Tensor, B: Tensor, scale: float, cuts: Cuts) -> list[Tensor]:
    """Add scale · (x Aᵀ) Bᵀ to y in place, every token with its group's factors.

    y `[rows, T, out]`, x `[rows, T, in]`, A `[G, r, in]`, B `[G, out, r]`. Returns scale · A xᵀ of the groups, as
    `[1, r, tokens]` each, or all in one `[G, r, tokens]`.
    """
    inners = []
    for own_y, own_x, own_A, own_B in zip(*_blocks(cuts, (y, x.contiguous()), (A, B)), strict=True):
        inner = torch.bmm(own_A, own_x.mT).mul_(scale)
        own_y.baddbmm_(inner.mT, own_B.mT)
        inners.append(inner)
    return inners


class LowRank(torch.autograd.Function):
    """`add_low_rank` with gradients; gives y. What is changed in place comes first: for a view, as linear layers with a
    bias give, autograd takes the first gradient to be that of the view.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, A: Tensor, B: Tensor, scale: float, cuts: Cuts) -> Tensor:
        ctx.scale, ctx.cuts = scale, cuts
        ctx.mark_dirty(y)
        ctx.save_for_backward(x, A, B, *add_low_rank(y, x, A, B, scale, cuts))
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, A, B, *inners = ctx.saved_tensors
        of_y = gradients[0].contiguous()
        of_x, of_A, of_B = (tensor.new_empty(tensor.shape) for tensor in (x, A, B))
        blocks = _blocks(ctx.cuts, (of_y, x.contiguous(), of_x), (A, B, of_A, of_B))
        for inner, (own_y, own_x, to_x, own_A, own_B, to_A, to_B) in zip(
            inners, zip(*blocks, strict=True), strict=True
        ):
            of_inner = torch.bmm(own_B.mT, own_y.mT).mul_(ctx.scale)
            if ctx.needs_input_grad[1]:  # not for the input of the first layer
                torch.bmm(of_inner.mT, own_A, out=to_x)
            torch.bmm(of_inner, own_x, out=to_A)
            to_B.copy_(torch.bmm(inner, own_y).mT)
        return of_y, of_x if ctx.needs_input_grad[1] else None, of_A, of_B, None, None


def _blocks(cuts: Cuts, rows: Sequence[Tensor], factors: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
    """Views for one batched matmul each: of rows `[G, tokens, d]` and factors `[G, ...]`, for all groups or for one."""
    groups = len(factors[0])
    for tensor in rows:
        flat = tensor.view(-1, tensor.shape[-1])  # never a copy: some are written to
        if cuts is None:
            yield [flat.view(groups, -1, flat.shape[1])]
        else:
            yield [flat[start:end][None] for start, end in pairwise(cuts)]
    for factor in factors:
        yield [factor] if cuts is None else factor.split(1)
