"""Vary one adapter: noise on its ΔW, and how much of its rank it uses."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from evolora_core.lora.population.adapter import Adapter, squared_norms
from evolora_core.lora.population.singular import alike, squared_values, stacked, truncate

RESOLUTION = 1e-6  # of a module's largest singular value: what is smaller is rounding of float32 factors


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


def mutate_singular(adapter: Adapter, sigma: float, rng: np.random.Generator) -> Adapter:
    """The adapter with noise along its own singular directions: in every module ‖change of ΔW‖ = sigma · ‖ΔW‖, exactly.

    With ΔW = U S Vᵀ the child is U (S + M) Vᵀ, M Gaussian: its diagonal changes the singular values, the rest turns the
    directions within their spans (as a full M would in SVFT, Lingam et al. 2024, arXiv 2405.19597). No direction is
    new, neither of those that ΔW reads nor of those that it writes. A module with ΔW = 0 stays so. The factors come out
    in the form of a merge, with orthogonal rows of A.
    """
    A: dict[str, Tensor] = {}
    B: dict[str, Tensor] = {}
    for names in alike([adapter]).values():
        rows, columns = truncate(stacked(adapter.B, names), stacked(adapter.A, names), adapter.rank, rng)
        lengths = columns.norm(dim=1)  # [modules, rank]; ROW_NORM times them are the singular values
        own = lengths > RESOLUTION * lengths.amax(dim=1, keepdim=True)
        U = torch.where(own[:, None, :], columns / lengths[:, None, :], 0.0)
        noise = torch.from_numpy(rng.standard_normal((len(names), adapter.rank, adapter.rank))).to(U)
        M = noise * (own[:, :, None] & own[:, None, :])
        size = _ratio(sigma * lengths.norm(dim=1), M.norm(dim=(1, 2)))
        changed = columns + U @ (M * size[:, None, None])
        A |= {name: row.to(adapter.A[name]) for name, row in zip(names, rows, strict=True)}
        B |= {name: column.to(adapter.B[name]) for name, column in zip(names, changed, strict=True)}
    return Adapter(adapter.rank, adapter.scale, {n: A[n] for n in adapter.A}, {n: B[n] for n in adapter.A})


def lost_by_halving(adapter: Adapter) -> float:
    """Share of ‖ΔW‖² over all modules that the nearest adapter of half the rank (rounded down) would be without.

    It is what the smaller half of every module's singular values carries (Eckart and Young 1936): 1/2 where all are
    equal, 0 where half of them are zero, or all. Of rank 1 there is no half: 1.
    """
    lost = total = 0.0
    for names in alike([adapter]).values():
        squares = squared_values(stacked(adapter.B, names), stacked(adapter.A, names)).sum(dim=0)
        lost += float(squares[adapter.rank // 2 :].sum())
        total += float(squares.sum())
    return lost / total if total else 0.0


MUTATIONS: dict[str, Callable[[Adapter, float, np.random.Generator], Adapter]] = {
    "isotropic": mutate,
    "singular": mutate_singular,
}


def _ratio(target: Tensor, norm: Tensor) -> Tensor:
    """target / norm; 0 where both are."""
    return torch.where(target > 0, target / norm, 0.0)
