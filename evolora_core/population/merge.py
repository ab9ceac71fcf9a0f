"""Merge, resize and mutate adapters in ΔW space.

Averaging A and B apart is not averaging ΔW = s·B@A, and cutting the rank of A or B alone keeps the wrong part; so
everything here acts on the product. It stays factored where it can: the stacked factors [B₁ … Bₙ] and [A₁; …; Aₙ] have
R = Σrᵢ columns and rows, and the product's singular vectors come out of R x R matrices. Modules of one shape go
together.

Every result has one form: the rows of A are orthogonal and of the norm that they have at initialisation, and B carries
the singular values. So a merged adapter learns on like a fresh one, and a component of ΔW that is zero can still grow.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from evolora_core.errors import AdapterError
from evolora_core.population.adapter import Adapter, squared_norms
from evolora_core.rng import stream

METHODS = ("weighted", "ties", "dare")
ROW_NORM = 3**-0.5  # of a row of A drawn from U(-1/√in, 1/√in)


def merge(
    adapters: Sequence[Adapter],
    weights: Sequence[float],
    rank: int,
    method: str = "weighted",
    *,
    seed: int = 0,
    density: float = 0.5,
) -> Adapter:
    """One adapter of `rank` whose ΔW is the merge of the parents' with these weights; their ranks may differ.

    weighted   Σ wᵢΔWᵢ, never dense: O((in + out)·R²) a module with R = Σ ranks; exact when rank ≥ R
    ties       each parent keeps its largest entries (a share `density`), every entry elects a sign and takes
               the weighted mean of those that agree, times Σw (Yadav et al. 2023, arXiv 2306.01708)
    dare       each parent keeps entries at random with probability `density`, divided by it; then weighted (Yu et al.
               2023, arXiv 2311.03099)

    The last two act on entries, so they hold one module's dense ΔWᵢ at a time: O(n·in·out) memory, O(m²·max(in, out))
    work with m = min(in, out). `seed` is of dare's draws. A parent without a module counts as ΔW = 0 there.
    AdapterError: the shapes of a module differ, or a factor is not finite.
    """
    if method not in METHODS:
        raise ValueError(f"merge method {method!r} is none of {', '.join(METHODS)}")
    if not adapters or len(adapters) != len(weights):
        raise ValueError(f"{len(adapters)} adapters but {len(weights)} weights")
    _check_finite(adapters)
    draw = stream(seed, 0, 0, "merge")
    scale = adapters[0].scale
    A: dict[str, Tensor] = {}
    B: dict[str, Tensor] = {}
    for (present, _), names in _alike(adapters).items():
        parents = [adapters[number] for number in present]
        shares = [weights[number] * adapters[number].scale / scale for number in present]
        if method == "weighted":
            left = torch.cat(
                [_stack(parent.B, names) * share for parent, share in zip(parents, shares, strict=True)], dim=2
            )
            right = torch.cat([_stack(parent.A, names) for parent in parents], dim=1)
        else:
            own = [weights[number] for number in present]
            pairs = [_dense_merge(parents, own, name, scale, rank, method, density, draw) for name in names]
            left, right = (torch.stack(factors) for factors in zip(*pairs, strict=True))
        like = parents[0].A[names[0]]
        rows, columns = (factor.to(like) for factor in _truncate(left, right, rank, draw))
        A |= dict(zip(names, rows, strict=True))
        B |= dict(zip(names, columns, strict=True))
    order = dict.fromkeys(name for adapter in adapters for name in adapter.A)
    return Adapter(rank, scale, {name: A[name] for name in order}, {name: B[name] for name in order})


def resize(adapter: Adapter, rank: int) -> Adapter:
    """The adapter of `rank` with the nearest ΔW (Eckart and Young 1936): the same where rank is not below its own."""
    return adapter if rank == adapter.rank else merge([adapter], [1.0], rank)


def mutate(adapter: Adapter, sigma: float, rng: np.random.Generator) -> Adapter:
    """The adapter with relative noise: in every module ‖change of ΔW‖ = sigma · ‖ΔW‖, to first order in sigma.

    The noise is tangent to the matrices of this rank: ΔW + E·A + B·F with Gaussian E and F, half of its square each, so
    nothing is lost by truncation. A module with ΔW = 0 stays so: there is no scale to mutate it by.
    """
    A: dict[str, Tensor] = {}
    B: dict[str, Tensor] = {}
    for name, a in adapter.A.items():
        b = adapter.B[name]
        target = sigma * squared_norms(a, b).sqrt() * 0.5**0.5
        E = torch.from_numpy(rng.standard_normal(b.shape)).to(b)
        F = torch.from_numpy(rng.standard_normal(a.shape)).to(a)
        B[name] = b + E * _ratio(target, squared_norms(a, E).sqrt()).to(b)
        A[name] = a + F * _ratio(target, squared_norms(F, b).sqrt()).to(a)
    return Adapter(adapter.rank, adapter.scale, A, B)


def _ratio(target: Tensor, norm: Tensor) -> Tensor:
    """target / norm; 0 where both are."""
    return torch.where(target > 0, target / norm, 0.0)


def _alike(adapters: Sequence[Adapter]) -> dict[tuple[tuple[int, ...], tuple[int, int]], list[str]]:
    """Modules of one shape and the same parents (by number), which can be merged at once."""
    groups: dict[tuple[tuple[int, ...], tuple[int, int]], list[str]] = {}
    for name in dict.fromkeys(name for adapter in adapters for name in adapter.A):
        present = tuple(number for number, adapter in enumerate(adapters) if name in adapter.A)
        shape = _check_parents(name, [adapters[number] for number in present])
        groups.setdefault((present, shape), []).append(name)
    return groups


def _stack(factors: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """`[modules, ...]` in float64."""
    return torch.stack([factors[name] for name in names]).double()


def _truncate(left: Tensor, right: Tensor, rank: int, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A `[m, rank, in]`, B `[m, out, rank]`: B @ A is the nearest to left `[m, out, R]` @ right `[m, R, in]`.

    With right = C Q, the rows of Q orthonormal and C the Cholesky factor of right's Gram matrix, the right singular
    vectors of the product are Qᵀ times those of left C: everything but the last QR happens in R x R. Squaring costs
    singular values below 1e-8 of the largest, which float32 does not hold.
    """
    inner = left.mT @ left
    gram = right @ right.mT
    size = gram.shape[1]
    trace = gram.diagonal(dim1=1, dim2=2).sum(dim=1).clamp(min=torch.finfo(gram.dtype).tiny)
    jitter = 1e-14 * trace[:, None, None] * torch.eye(size, dtype=gram.dtype, device=gram.device)
    C = torch.linalg.cholesky(gram + jitter)  # parents that share a row space leave the Gram matrix singular
    kept = min(rank, size, left.shape[1], right.shape[2])
    vectors = torch.linalg.eigh(C.mT @ inner @ C).eigenvectors.flip(dims=[2])[:, :, :kept]  # eigenvalues ascend
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


def _dense_merge(
    parents: Sequence[Adapter],
    weights: Sequence[float],
    name: str,
    scale: float,
    rank: int,
    method: str,
    density: float,
    draw: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Factors of one module's merge by entries."""
    deltas = torch.stack(
        [parent.B[name].double() @ parent.A[name].double() * (parent.scale / scale) for parent in parents]
    )
    shares = torch.tensor(weights, dtype=torch.float64, device=deltas.device)
    return _leading(_ties(deltas, shares, density) if method == "ties" else _dare(deltas, shares, density, draw), rank)


def _leading(dense: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Factors of a dense matrix's best approximation by `rank`, from the eigenvectors of its smaller Gram matrix."""
    if dense.shape[0] > dense.shape[1]:
        left, right = _leading(dense.mT, rank)
        return right.mT, left.mT
    basis = torch.linalg.eigh(dense @ dense.mT).eigenvectors[:, -rank:]  # eigenvalues ascend
    return basis, basis.mT @ dense


def _ties(deltas: Tensor, weights: Tensor, density: float) -> Tensor:
    """Trim, elect, disjoint mean over `[n, out, in]`; times Σw, so that parents who agree give their weighted sum."""
    kept = max(1, round(density * deltas[0].numel()))
    threshold = deltas.abs().flatten(1).kthvalue(deltas[0].numel() - kept + 1, dim=1).values
    trimmed = torch.where(deltas.abs() >= threshold[:, None, None], deltas, 0.0)
    weighted = trimmed * weights[:, None, None]
    agree = (torch.sign(weighted) == torch.sign(weighted.sum(dim=0))) & (weighted != 0)
    share = torch.where(agree, weights[:, None, None], 0.0).sum(dim=0)
    merged = torch.where(agree, weighted, 0.0).sum(dim=0) * weights.sum()
    return torch.where(share != 0, merged / share, 0.0)


def _dare(deltas: Tensor, weights: Tensor, density: float, draw: np.random.Generator) -> Tensor:
    """Drop and rescale, then the weighted sum of `[n, out, in]`."""
    kept = torch.from_numpy(draw.random(tuple(deltas.shape)) < density).to(deltas.device)
    return torch.einsum("n,noi->oi", weights, torch.where(kept, deltas / density, 0.0))


def _check_finite(adapters: Sequence[Adapter]) -> None:
    """One look at everything; only what is broken is looked through."""
    for adapter in adapters:
        factors = [*adapter.A.items(), *adapter.B.items()]
        if math.isfinite(float(torch.stack([factor.sum() for _, factor in factors]).sum())):
            continue
        broken = [name for name, factor in factors if not factor.isfinite().all()]
        if broken:
            raise AdapterError(
                f"merge: module {broken[0]!r}: an adapter of rank {adapter.rank} is not finite; leave it out"
            )


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
