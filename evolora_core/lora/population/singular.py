"""Singular vectors and values of ΔW, of all modules of one shape at once.

ΔW stays factored where it can: stacked factors [B₁ … Bₙ] and [A₁; …; Aₙ] have R = Σrᵢ columns and rows, and the
product's singular vectors come out of R x R matrices.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from evolora_core.errors import AdapterError
from evolora_core.lora.population.adapter import Adapter

ROW_NORM = 3**-0.5  # of a row of A drawn from U(-1/√in, 1/√in)


def alike(adapters: Sequence[Adapter]) -> dict[tuple[tuple[int, ...], tuple[int, int]], list[str]]:
    """Modules by (numbers of the adapters that have them, (out, in)): what is worked on at once.

    AdapterError: the shapes of a module differ.
    """
    groups: dict[tuple[tuple[int, ...], tuple[int, int]], list[str]] = {}
    for name in dict.fromkeys(name for adapter in adapters for name in adapter.A):
        present = tuple(number for number, adapter in enumerate(adapters) if name in adapter.A)
        shape = _check_parents(name, [adapters[number] for number in present])
        groups.setdefault((present, shape), []).append(name)
    return groups


def stacked(factors: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """`[modules, ...]` in float64."""
    return torch.stack([factors[name] for name in names]).double()


def truncate(left: Tensor, right: Tensor, rank: int, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A `[m, rank, in]`, B `[m, out, rank]`: B @ A is the nearest to left `[m, out, R]` @ right `[m, R, in]`.

    The rows of A are orthogonal and of `ROW_NORM`, B's columns orthogonal, the longest first: `ROW_NORM` times their
    lengths are the singular values. Beyond what left and right have, A's rows are drawn as a new adapter's, B is zero.

    With right = C Q, the rows of Q orthonormal and C the Cholesky factor of right's Gram matrix, the right singular
    vectors of the product are Qᵀ times those of left C: everything but the last QR happens in R x R. Squaring costs
    singular values below 1e-8 of the largest, which float32 does not hold.
    """
    C, core = _core(left, right)
    kept = min(rank, len(C[0]), left.shape[1], right.shape[2])
    vectors = torch.linalg.eigh(core).eigenvectors.flip(dims=[2])[:, :, :kept]  # eigenvalues ascend
    directions = right.mT @ torch.linalg.solve_triangular(C.mT, vectors, upper=True)
    basis, _ = torch.linalg.qr(directions)
    A = basis.mT * ROW_NORM
    B = left @ (right @ basis) / ROW_NORM
    if kept < rank:  # room for more than the parents have: fresh rows, as in a new adapter
        bound = right.shape[2] ** -0.5
        fresh = torch.from_numpy(draw.uniform(-bound, bound, size=(len(A), rank - kept, right.shape[2])))
        A = torch.cat([A, fresh.to(A)], dim=1)
        B = torch.cat([B, B.new_zeros(len(B), B.shape[1], rank - kept)], dim=2)
    return A, B


def squared_values(left: Tensor, right: Tensor) -> Tensor:
    """Squares of the singular values of left `[m, out, R]` @ right `[m, R, in]`, `[m, R]`, the largest first."""
    result: Tensor = torch.linalg.eigvalsh(_core(left, right)[1]).flip(dims=[1]).clamp(min=0)
    return result


def _core(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """C and CᵀLᵀLC, both `[m, R, R]`: see `truncate`."""
    inner = left.mT @ left
    gram = right @ right.mT
    size = gram.shape[1]
    trace = gram.diagonal(dim1=1, dim2=2).sum(dim=1).clamp(min=torch.finfo(gram.dtype).tiny)
    jitter = 1e-14 * trace[:, None, None] * torch.eye(size, dtype=gram.dtype, device=gram.device)
    C = torch.linalg.cholesky(gram + jitter)  # parents that share a row space leave the Gram matrix singular
    return C, C.mT @ inner @ C


def leading(dense: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Factors `[..., out, k]` and `[..., k, in]`, k ≤ rank, of the best approximation by `rank` of `[..., out, in]`.

    From the eigenvectors of the smaller Gram matrix.
    """
    if dense.shape[-2] > dense.shape[-1]:
        left, right = leading(dense.mT, rank)
        return right.mT, left.mT
    basis = torch.linalg.eigh(dense @ dense.mT).eigenvectors[..., -rank:]  # eigenvalues ascend
    return basis, basis.mT @ dense


def _check_parents(name: str, adapters: Sequence[Adapter]) -> tuple[int, int]:
    """The module's shape, the same in all."""
    first = adapters[0].shape(name)
    for adapter in adapters:
        shape = adapter.shape(name)
        if shape != first:
            ranks = f"ranks {adapters[0].rank} and {adapter.rank}"
            raise AdapterError(
                f"merge: module {name!r}: {first[0]} x {first[1]} and {shape[0]} x {shape[1]} (out x in; {ranks}) "
                "are of different hosts; merge adapters of one host"
            )
    return first
