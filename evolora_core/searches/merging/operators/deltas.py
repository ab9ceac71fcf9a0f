"""What operators share: sums block by block, the sparsification of task vectors, and the election of signs.

A task vector is τᵢ = θᵢ − θ₀, an input minus the base. Everything here works on flat float32 tensors [n].

The work goes through tensors in blocks that fit a core's cache: each of these sums has several passes over its
operands, and at the size of an embedding the memory, not the arithmetic, sets the speed of whole passes.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 2**16  # elements of a block: 256 KiB of float32. Results do not depend on it, save by rounding
TINY = 1e-6  # a sum of weights nearer to 0 divides nothing: what is left of weights that cancel is rounding
RESOLUTION = 2.0**-24  # of the uniform draws: a lower probability is 0


def blocks(size: int) -> Iterator[slice]:
    """Slices that cover `size` elements."""
    return (slice(start, start + BLOCK) for start in range(0, size, BLOCK))


def combined(tensors: Sequence[Tensor], coefficients: Sequence[float]) -> Tensor:
    """Σ cᵢ θᵢ, of the tensors' shape."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    result = torch.empty_like(flat[0])
    for block in blocks(result.numel()):
        part = torch.mul(flat[0][block], coefficients[0], out=result[block])
        for tensor, coefficient in zip(flat[1:], coefficients[1:], strict=True):
            part.add_(tensor[block], alpha=coefficient)
    return result.reshape(tensors[0].shape)


def moved(base: Tensor, step: Callable[[slice], Tensor], scale: float) -> Tensor:
    """θ₀ + scale · step, of the base's shape; `step` gives the elements of a block of the flat tensor."""
    flat = base.reshape(-1)
    result = torch.empty_like(flat)
    for block in blocks(result.numel()):
        torch.add(flat[block], step(block), alpha=scale, out=result[block])
    return result.reshape(base.shape)


def weighted(parts: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Σ wᵢ τᵢ of a block."""
    total = parts[0] * weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total.add_(part, alpha=weight)
    return total


def divisor(weights: Sequence[float], normalize: bool) -> float:
    """Σ wᵢ, or 1 where it is not to be divided by or is 0."""
    total = math.fsum(weights) if normalize else 1.0
    return total if abs(total) >= TINY else 1.0


def differences(inputs: Sequence[Tensor], base: Tensor) -> list[Tensor]:
    """The task vectors, flat. They are new tensors: what follows may write to them."""
    return [(tensor - base).reshape(-1) for tensor in inputs]


def products(tensors: Sequence[Tensor], base: Tensor | None = None) -> Tensor:
    """Inner products of all pairs of θᵢ − θ₀, or of θᵢ without a base: [inputs, inputs], float64, also in between: what
    follows divides by differences of them.
    """
    flat = [tensor.reshape(-1) for tensor in tensors]
    from_where = None if base is None else base.reshape(-1)
    found = torch.zeros(len(flat), len(flat), dtype=torch.float64)
    for block in blocks(flat[0].numel()):
        rows = torch.stack([tensor[block] for tensor in flat])
        if from_where is not None:
            rows -= from_where[block]
        exact = rows.double()
        found += (exact @ exact.T).cpu()
    return found


def elected(parts: Sequence[Tensor], votes: Sequence[float], weights: Sequence[float]) -> tuple[Tensor, Tensor]:
    """What agrees with the elected sign, and its weights: Σ wᵢτᵢ and Σ wᵢ over agreeing i, for a block.

    An element's sign is that of Σ vᵢτᵢ, + if that is 0; τᵢ agrees if vᵢτᵢ has it, and a zero never does
    (TIES, Yadav et al. 2023, arXiv 2306.01708).
    """
    sign = weighted(parts, votes).ge_(0).mul_(2).sub_(1)
    total, total_weight = torch.zeros_like(sign), torch.zeros_like(sign)
    for part, vote, weight in zip(parts, votes, weights, strict=True):
        agrees = (part * sign).mul_(math.copysign(1.0, vote)).gt_(0)
        total.addcmul_(part, agrees, value=weight)
        total_weight.add_(agrees, alpha=weight)
    return total, total_weight


def kth_largest(values: Tensor, k: int) -> float:
    """The k-th largest of the values, k from 1 to n. They may be left in another order."""
    if values.device.type == "cpu":  # numpy's selection is many times as fast as torch's
        values.numpy().partition(values.numel() - k)
        return float(values[values.numel() - k])
    return float(torch.kthvalue(values, values.numel() - k + 1).values)


def largest(values: Tensor, k: int) -> Tensor:
    """Which k of the values are the largest: bool [n]. Of equal ones the first are taken."""
    if k <= 0 or k >= values.numel():
        return torch.full_like(values, k > 0, dtype=torch.bool)
    least = kth_largest(values.clone(), k)
    found = values >= least
    surplus = int(found.count_nonzero()) - k
    if surplus:
        found[_last(values == least, surplus)] = False
    return found


def trim(delta: Tensor, density: float) -> Tensor:
    """Keep the max(1, ⌊ρn⌋) largest magnitudes of a tensor's task vector, in place; none at density 0. The paper of
    TIES trims that of the whole model at once; mergekit too takes tensor by tensor.
    """
    if density >= 1 or not delta.numel():
        return delta
    if density <= 0:
        return delta.zero_()
    kept = max(1, int(density * delta.numel()))
    least = kth_largest(delta.abs(), kept)
    if not least:  # all that is smaller is 0 as well
        return delta
    below = torch.nextafter(torch.tensor(least), torch.tensor(0.0)).item()
    trimmed = torch.nn.functional.hardshrink(delta, below)  # keeps |τ| > below in a single pass
    surplus = int(trimmed.count_nonzero()) - kept
    if surplus:  # equal magnitudes at the border are usual: weights of few bits have differences of few values
        trimmed[_last(trimmed.abs() == least, surplus)] = 0
    return trimmed


def trim_between(delta: Tensor, density: float, gamma: float) -> Tensor:
    """Drop the ⌊γn⌋ largest magnitudes, then the smallest until ⌊ρn⌋ remain, in place (Model Breadcrumbs, Davari and
    Belilovsky 2024, arXiv 2312.06795). Fewer of the largest are dropped if else too few remained; none at density 1.
    """
    size = delta.numel()
    if density >= 1:
        return delta
    kept = int(density * size)
    outliers = min(int(gamma * size), size - kept)
    magnitudes = delta.abs()
    return delta.mul_(largest(magnitudes, kept + outliers) & ~largest(magnitudes, outliers))


def drop(delta: Tensor, density: float, rescale: str, stream: torch.Generator) -> Tensor:
    """Keep each element with probability ρ, in place (DARE, Yu et al. 2024, arXiv 2311.03099).

    rescale   inverse_p: divide what is kept by ρ, so that the expectation stays; l1: scale it so that Σ|τ| stays, as
              mergekit does, which is nearly the same for many elements and wild for few; none
    """
    if density >= 1:
        return delta
    if density < RESOLUTION:
        return delta.zero_()
    before, after = 0.0, 0.0
    for block in blocks(delta.numel()):
        part = delta[block]
        keeps = uniform(part, stream).lt_(density)
        if rescale == "l1":
            before += float(part.abs().sum())
            after += float(part.mul_(keeps).abs().sum())
        else:
            part.mul_(keeps.div_(density) if rescale == "inverse_p" else keeps)
    return _as_before(delta, before, after) if rescale == "l1" else delta


def drop_by_rank(
    delta: Tensor, shape: Sequence[int], density: float, epsilon: float, rescale: str, stream: torch.Generator
) -> Tensor:
    """Keep each element with a probability that grows with the rank of its magnitude in its row, from ρ − ε for the
    smallest to ρ + ε for the largest (DELLA, Deep et al. 2024, arXiv 2406.11617, whose ε is the whole span: twice this
    one, which is mergekit's). `shape` is that of the tensor; a row runs along its second dimension, and a tensor with
    fewer is one row.

    ε is cut to min(ε, ρ, 1 − ρ) to keep probabilities in [0, 1]. A row of one element has probability ρ. `rescale` is
    as for `drop`, where inverse_p divides each element that is kept by its own probability.
    """
    if density >= 1 or not delta.numel():
        return delta
    if density < RESOLUTION:
        return delta.zero_()
    epsilon = min(epsilon, density, 1 - density)
    rows = delta.reshape(tuple(shape) if len(shape) > 1 else (1, -1))
    length = rows.shape[1]
    place = torch.arange(length, device=delta.device) / (length - 1) if length > 1 else torch.full_like(delta[:1], 0.5)
    ladder = (density - epsilon + 2 * epsilon * place).reshape((1, -1) + (1,) * (rows.dim() - 2))
    order = rows.abs().argsort(dim=1)
    chances = torch.empty_like(rows).scatter_(1, order, ladder.expand_as(rows)).reshape(-1)
    keeps = uniform(delta, stream).lt_(chances)
    if rescale == "l1":
        before = float(delta.abs().sum())
        delta.mul_(keeps)
        return _as_before(delta, before, float(delta.abs().sum()))
    if rescale == "inverse_p":
        keeps.div_(chances.clamp_(min=RESOLUTION))  # an element of chance 0 is never kept; not 0/0
    return delta.mul_(keeps)


def uniform(like: Tensor, stream: torch.Generator) -> Tensor:
    """Numbers from [0, 1), as many as `like` has."""
    return torch.rand(like.shape, generator=stream, device=stream.device, dtype=like.dtype).to(like.device)


def _last(chosen: Tensor, count: int) -> Tensor:
    """Positions of the last `count` elements that are chosen."""
    return chosen.nonzero()[-count:, 0]


def _as_before(delta: Tensor, before: float, after: float) -> Tensor:
    """Scaled, in place, so that a norm that is `after` now is as `before`; left alone where one is nearly 0."""
    return delta if min(before, after) < 1e-7 else delta.mul_(before / after)
