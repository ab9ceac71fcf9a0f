"""Merge and resize adapters in ΔW space.

Averaging A and B apart is not averaging ΔW = s·B@A, and cutting the rank of A or B alone keeps the wrong part; so
everything here acts on the product, and stays factored where it can (`singular`).

Every result has one form: the rows of A are orthogonal and of the norm that they have at initialisation, and B carries
the singular values. So a merged adapter learns on like a fresh one, and a component of ΔW that is zero can still grow.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from evolora_core.engine.rng import stream
from evolora_core.errors import AdapterError
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.fisher import Fisher
from evolora_core.lora.population.singular import alike, leading, stacked, truncate

METHODS = ("weighted", "ties", "dare", "fisher")
DENSITY = 0.5  # share of its entries that a parent keeps under ties and dare
DENSE = 2**22  # elements of the parents' dense ΔW that a Fisher merge holds at once, one module's at least


def merge(
    adapters: Sequence[Adapter],
    weights: Sequence[float],
    rank: int,
    method: str = "weighted",
    *,
    seed: int = 0,
    fishers: Sequence[Fisher] = (),
) -> Adapter:
    """One adapter of `rank` whose ΔW is the merge of the parents' with these weights; their ranks may differ.

    weighted   Σ wᵢΔWᵢ, never dense: O((in + out)·R²) a module with R = Σ ranks; exact when rank ≥ R
    ties       each parent keeps its largest entries (a share DENSITY), every entry elects a sign and takes
               the weighted mean of those that agree, times Σw (Yadav et al. 2023, arXiv 2306.01708)
    dare       each parent keeps entries at random with probability DENSITY, divided by it; then weighted (Yu et al.
               2023, arXiv 2311.03099)
    fisher     in every entry the mean of the parents', weighted by wᵢFᵢ with their Fisher information Fᵢ (`fishers`,
               one a parent, of all modules), times Σw (Matena and Raffel 2022, arXiv 2111.09832). Equal Fᵢ, or none
               at all in an entry, give Σ wᵢΔWᵢ there

    The last three act on entries, so they hold dense ΔWᵢ, of one module at a time or of a few small ones: O(n·in·out)
    memory, O(m²·max(in, out)) work with m = min(in, out). `seed` is of dare's draws. A parent without a module counts
    as ΔW = 0 there. AdapterError: the shapes of a module differ, or a factor is not finite. ValueError: an unknown
    method, not as many weights or Fishers as adapters, or a weight for `fisher` that is not above 0.
    """
    if method not in METHODS:
        raise ValueError(f"merge method {method!r} is none of {', '.join(METHODS)}")
    if not adapters or len(adapters) != len(weights):
        raise ValueError(f"{len(adapters)} adapters but {len(weights)} weights")
    if method == "fisher" and (len(fishers) != len(adapters) or min(weights) <= 0):
        raise ValueError(f"merge by Fisher: {len(adapters)} adapters, {len(fishers)} Fishers, weights {[*weights]}")
    _check_finite(adapters)
    draw = stream(seed, 0, 0, "merge")
    scale = adapters[0].scale
    A: dict[str, Tensor] = {}
    B: dict[str, Tensor] = {}
    for (present, _), names in alike(adapters).items():
        parents = [adapters[number] for number in present]
        shares = [weights[number] * adapters[number].scale / scale for number in present]
        if method == "weighted":
            left = torch.cat(
                [stacked(parent.B, names) * share for parent, share in zip(parents, shares, strict=True)], dim=2
            )
            right = torch.cat([stacked(parent.A, names) for parent in parents], dim=1)
        elif method == "fisher":
            left, right = _fisher_merge(adapters, present, weights, fishers, names, rank)
        else:
            own = [weights[number] for number in present]
            whole = sum(weights)
            pairs = [_dense_merge(parents, own, whole, name, scale, rank, method, draw) for name in names]
            left, right = (torch.stack(factors) for factors in zip(*pairs, strict=True))
        like = parents[0].A[names[0]]
        rows, columns = (factor.to(like) for factor in truncate(left, right, rank, draw))
        A |= dict(zip(names, rows, strict=True))
        B |= dict(zip(names, columns, strict=True))
    order = dict.fromkeys(name for adapter in adapters for name in adapter.A)
    return Adapter(rank, scale, {name: A[name] for name in order}, {name: B[name] for name in order})


def add_up(adapters: Sequence[Adapter], weight: float) -> Adapter:
    """Σ weight · ΔWᵢ: task arithmetic (Ilharco et al. 2022, arXiv 2212.04089).

    Its rank is half more than the largest at most, the leading directions, so that an answer stays cheap.
    """
    ranks = [adapter.rank for adapter in adapters]
    return merge(adapters, [weight] * len(adapters), min(sum(ranks), summed_rank(max(ranks))))


def summed_rank(largest: int) -> int:
    """The highest rank of a sum of adapters whose largest rank is given: half as much again, rounded up."""
    return largest + (largest + 1) // 2


def resize(adapter: Adapter, rank: int, *, seed: int = 0) -> Adapter:
    """The adapter of `rank` with the nearest ΔW (Eckart and Young 1936): the same where rank is not below its own.

    `seed` is of the new rows of A, which a larger rank brings and which do nothing yet.
    """
    return adapter if rank == adapter.rank else merge([adapter], [1.0], rank, seed=seed)


def _fisher_merge(
    adapters: Sequence[Adapter],
    present: Sequence[int],
    weights: Sequence[float],
    fishers: Sequence[Fisher],
    names: Sequence[str],
    rank: int,
) -> tuple[Tensor, Tensor]:
    """Factors of the merge by Fisher of modules of one shape, which the adapters `present` have."""
    out_features, in_features = adapters[present[0]].shape(names[0])
    together = max(1, DENSE // (len(adapters) * out_features * in_features))
    pairs = []
    for start in range(0, len(names), together):
        part = names[start : start + together]
        parents = [adapters[number] for number in present]
        deltas = torch.stack(
            [stacked(one.B, part) @ stacked(one.A, part) * (one.scale / adapters[0].scale) for one in parents]
        )
        columns, rows = (
            torch.stack([stacked(factors, part) for factors in side]).to(deltas)
            for side in zip(*((one.outputs, one.inputs) for one in fishers), strict=True)
        )
        own = torch.tensor(weights, dtype=deltas.dtype, device=deltas.device)[:, None, None, None]
        information = own * columns[..., :, None] * rows[..., None, :]  # [n, modules, out, in]
        total = information.sum(dim=0)
        shares = torch.where(total > 0, information / total, own / own.sum())[list(present)]
        pairs.append(leading((shares * deltas).sum(dim=0) * own.sum(), rank))
    left, right = (torch.cat(factors) for factors in zip(*pairs, strict=True))
    return left, right


def _dense_merge(
    parents: Sequence[Adapter],
    weights: Sequence[float],
    whole: float,
    name: str,
    scale: float,
    rank: int,
    method: str,
    draw: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Factors of one module's merge by entries; `whole` is the weight of all parents, those without the module too."""
    deltas = torch.stack(
        [parent.B[name].double() @ parent.A[name].double() * (parent.scale / scale) for parent in parents]
    )
    shares = torch.tensor(weights, dtype=torch.float64, device=deltas.device)
    if method == "ties":
        return leading(_ties(deltas, shares, whole), rank)
    return leading(_dare(deltas, shares, draw), rank)


def _ties(deltas: Tensor, weights: Tensor, whole: float) -> Tensor:
    """Trim, elect, disjoint mean over `[n, out, in]`; times the weight of all parents, `whole`, so that parents who
    agree give their weighted sum.
    """
    kept = max(1, round(DENSITY * deltas[0].numel()))
    threshold = deltas.abs().flatten(1).kthvalue(deltas[0].numel() - kept + 1, dim=1).values
    trimmed = torch.where(deltas.abs() >= threshold[:, None, None], deltas, 0.0)
    weighted = trimmed * weights[:, None, None]
    agree = (torch.sign(weighted) == torch.sign(weighted.sum(dim=0))) & (weighted != 0)
    share = torch.where(agree, weights[:, None, None], 0.0).sum(dim=0)
    merged = torch.where(agree, weighted, 0.0).sum(dim=0) * whole
    return torch.where(share != 0, merged / share, 0.0)


def _dare(deltas: Tensor, weights: Tensor, draw: np.random.Generator) -> Tensor:
    """Drop and rescale, then the weighted sum of `[n, out, in]`."""
    kept = torch.from_numpy(draw.random(tuple(deltas.shape)) < DENSITY).to(deltas.device)
    return torch.einsum("n,noi->oi", weights, torch.where(kept, deltas / DENSITY, 0.0))


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
