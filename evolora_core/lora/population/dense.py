"""A linear layer with W + ΔW in place of W: for groups of so many tokens that this is cheaper than ΔW's two narrow
products beside the layer's own, forward and back.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

WORTHWHILE = 8  # tokens for each rank, from which on making W + ΔW (twice) costs less than what it saves


def worthwhile(groups: int, tokens: int, rank: int) -> bool:
    """Whether so many groups that share so many tokens are long enough on the mean."""
    return groups > 0 and tokens >= WORTHWHILE * rank * groups


class Dense(torch.autograd.Function):
    """x (W + scale · B A)ᵀ + bias of groups of adjacent tokens, with gradients of x, A and B.

    x `[rows, T, in]`, W `[out, in]`, A `[G, r, in]`, B `[G, out, r]`, cuts `[G + 1]` where the groups' tokens begin and
    end. What is as narrow as a rank stands on the left of a matmul, as in `LowRank`.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, W: Tensor, bias: Tensor | None, A: Tensor, B: Tensor, scale: float, cuts: Sequence[int]
    ) -> Tensor:
        ctx.scale, ctx.cuts = scale, cuts
        ctx.save_for_backward(x, W, A, B)
        flat = x.reshape(-1, x.shape[-1])
        # What is given is no view: autograd refuses to change one of a function's own in place, as Falcon does.
        given = x.new_empty(*x.shape[:-1], len(W))
        y = given.view(-1, len(W))
        for group, (start, end) in enumerate(pairwise(cuts)):
            whole = torch.addmm(W, B[group], A[group], alpha=scale)
            torch.mm(flat[start:end], whole.T, out=y[start:end])
        if bias is not None:
            y += bias
        return given

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, W, A, B = ctx.saved_tensors
        flat, of_y = x.reshape(-1, x.shape[-1]), gradients[0].reshape(-1, len(W))
        of_x = torch.empty_like(flat) if ctx.needs_input_grad[0] else None
        of_A, of_B = A.new_empty(A.shape), B.new_empty(B.shape)
        for group, (start, end) in enumerate(pairwise(ctx.cuts)):
            own_x, own_y, own_A, own_B = flat[start:end], of_y[start:end], A[group], B[group]
            if of_x is not None:
                whole = torch.addmm(W, own_B, own_A, alpha=ctx.scale)
                torch.mm(own_y, whole, out=of_x[start:end])
            inner = torch.mm(own_A, own_x.T).mul_(ctx.scale)
            of_B[group] = torch.mm(inner, own_y).T
            of_inner = torch.mm(own_B.T, own_y.T).mul_(ctx.scale)
            torch.mm(of_inner, own_x, out=of_A[group])
        return None if of_x is None else of_x.view(x.shape), None, None, of_A, of_B, None, None
