"""What one training step of a mechanism costs at a size: counted on the real model, never timed.

`torch.utils.flop_counter` counts products of matrices and convolutions. It counts neither linear systems, which some
mechanisms solve instead, nor work on single elements; both are added here, so that a program cannot hide its work
there. The fused attention of torch, which it does not count on a CPU, is run as plain products.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from evolora_core.searches.attention.host.model import Mechanism, build, sinusoids
from evolora_core.searches.attention.host.sizes import Size, non_embedding, total
from evolora_core.searches.attention.host.training import loss_of


@dataclass(frozen=True)
class Cost:
    """Of one training step, forward and backward, without the optimizer's."""

    products: int  # operations in products of matrices, convolutions and linear systems
    elements: int  # elements written by everything else, views excepted
    parameters: int  # without the embedding
    total_parameters: int

    @property
    def flops(self) -> int:
        """All operations."""
        return self.products + self.elements


def cost_of_step(attention: Mechanism, size: Size, vocab: int, batch: int, context: int) -> Cost:
    """Build the model, take one step without an update and count."""
    model = build(attention, size, vocab, seed=0).train()
    tokens = torch.arange(batch * (context + 1)).view(batch, context + 1) % vocab
    sinusoids(context, size.dim, tokens.device)  # made once and kept: a first call would count more than a second
    counter = FlopCounterMode(display=False, custom_mapping=_SYSTEMS)
    with sdpa_kernel(SDPBackend.MATH), Elements() as elements, counter:
        loss_of(model, tokens).backward()
    return Cost(counter.get_total_flops(), elements.written, non_embedding(model), total(model))


class Elements(TorchDispatchMode):
    """Counts the elements that operations write which `FlopCounterMode`, entered within it, does not count."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.written = 0
        counted = {*FlopCounterMode(display=False).flop_registry, *_SYSTEMS}
        self._skipped = {*counted, torch.ops.aten._unsafe_view}  # the last is a view by another name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket not in self._skipped and not func.is_view:
            self.written += sum(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        return out


def _triangular(a: Any, b: Any, *_: Any, **__: Any) -> int:
    """One pass of substitution: `a` [..., n, n], `b` [..., n, k]."""
    return int(prod(b) * b[-2])


def _factored(per_cube: float) -> Any:
    """`per_cube` n^3 operations for each matrix [..., n, n]."""
    return lambda a, *_, **__: int(per_cube * prod(a) * a[-1])


def _solve(a: Any, b: Any, *_: Any, **__: Any) -> int:
    """A factorisation and two passes of substitution; `b` may be a vector."""
    return int(2 / 3 * prod(a) * a[-1] + 2 * prod(b) * a[-1])


def _twice(b: Any, a: Any, *_: Any, **__: Any) -> int:
    """Two passes of substitution with a factor that is there: `b` [..., n, k], `a` [..., n, n]."""
    return int(2 * prod(b) * a[-1])


# Golub, Van Loan, "Matrix Computations", 4th edition: leading terms.
_SYSTEMS = {
    torch.ops.aten.linalg_solve_triangular: _triangular,
    torch.ops.aten.triangular_solve: lambda b, a, *_, **__: int(prod(b) * a[-1]),
    torch.ops.aten._linalg_solve_ex: _solve,
    torch.ops.aten.linalg_lu_solve: lambda lu, pivots, b, *_, **__: int(2 * prod(b) * lu[-1]),
    torch.ops.aten.cholesky_solve: _twice,
    torch.ops.aten.linalg_lu_factor_ex: _factored(2 / 3),
    torch.ops.aten.linalg_cholesky_ex: _factored(1 / 3),
    torch.ops.aten.linalg_inv_ex: _factored(2),
    torch.ops.aten.cholesky_inverse: _factored(2 / 3),
    torch.ops.aten.linalg_qr: _factored(8 / 3),
    torch.ops.aten._linalg_eigh: _factored(9),
    torch.ops.aten._linalg_svd: _factored(22),
    torch.ops.aten.linalg_matrix_exp: _factored(20),
}
