"""Operators that keep every element: averages, arcs and sums of task vectors."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from evolora_core.searches.merging.misfits import Misfit
from evolora_core.searches.merging.operators.base import Draw, Operator, Parameter
from evolora_core.searches.merging.operators.deltas import TINY, combined, divisor, moved, products, weighted

WEIGHT = Parameter("weight", 1.0, -10.0, 10.0, each=True)
SCALE = Parameter("scale", 1.0, -10.0, 10.0)  # mergekit's lambda
YES_NO = ("yes", "no")
NO_YES = ("no", "yes")
COLINEAR = 0.9995  # cosine above which an arc is taken for a line
NO_LENGTH = 1e-8  # norm up to which a tensor has no direction


def linear(
    inputs: Sequence[Tensor], base: Tensor | None, params: Mapping[str, Any], options: Mapping[str, str], draw: Draw
) -> Tensor:
    """Σ wᵢθᵢ / Σ wᵢ: model soups (Wortsman et al. 2022, arXiv 2203.05482). The default weights give the mean. Misfit
    where the weights add up to 0: what is left of whole models then is no model.
    """
    total = math.fsum(params["weight"]) if options["normalize"] == "yes" else 1.0
    if abs(total) < TINY:
        raise Misfit("operator 'linear': its weights add up to 0; change `weight`, or say `normalize: no`")
    return combined(inputs, [weight / total for weight in params["weight"]])


def slerp(
    inputs: Sequence[Tensor], base: Tensor | None, params: Mapping[str, Any], options: Mapping[str, str], draw: Draw
) -> Tensor:
    """From a (t = 0) to b (t = 1) along an arc: [sin((1−t)φ) a + sin(tφ) b] / sin φ, φ the angle between the flat
    tensors (Shoemake 1985). Along a line where |cos φ| > 0.9995. One of no length has no direction: the angle is then
    taken as a right one.
    """
    t = params["t"]
    found = products(inputs)
    norms = found.diagonal().sqrt()
    norms = torch.where(norms > NO_LENGTH, norms, torch.ones_like(norms))
    cosine = float((found[0, 1] / norms.prod()).clamp(-1, 1))
    if abs(cosine) > COLINEAR:
        return combined(inputs, [1 - t, t])
    angle = math.acos(cosine)
    return combined(inputs, [math.sin((1 - t) * angle) / math.sin(angle), math.sin(t * angle) / math.sin(angle)])


def task_arithmetic(
    inputs: Sequence[Tensor], base: Tensor | None, params: Mapping[str, Any], options: Mapping[str, str], draw: Draw
) -> Tensor:
    """θ₀ + scale · Σ wᵢτᵢ [/ Σ wᵢ] (Ilharco et al. 2023, arXiv 2212.04089). The default weights give the sum."""
    assert base is not None
    total = divisor(params["weight"], options["normalize"] == "yes")
    return moved(base, _steps(inputs, base, params["weight"]), params["scale"] / total)


def model_stock(
    inputs: Sequence[Tensor], base: Tensor | None, params: Mapping[str, Any], options: Mapping[str, str], draw: Draw
) -> Tensor:
    """t · mean θᵢ + (1 − t) θ₀ with t = n cos φ / (1 + (n − 1) cos φ), cos φ the mean cosine between pairs of τᵢ (Model
    Stock, Jang et al. 2024, arXiv 2403.19522). Where the denominator is 0, θ₀.
    """
    assert base is not None
    count = len(inputs)
    found = products(inputs, base)
    norms = found.diagonal().sqrt()
    norms = torch.where(norms > 0, norms, torch.ones_like(norms))  # what has no direction has the cosine 0
    cosines = (found / torch.outer(norms, norms)).clamp(-1, 1)
    cosine = float(cosines.triu(diagonal=1).sum()) / (count * (count - 1) / 2)
    below = 1 + (count - 1) * cosine
    t = count * cosine / below if abs(below) >= 1e-6 else 0.0
    return moved(base, _steps(inputs, base, [t / count] * count), 1.0)


def _steps(inputs: Sequence[Tensor], base: Tensor, weights: Sequence[float]) -> Callable[[slice], Tensor]:
    """What gives Σ wᵢτᵢ of a block. From differences, so that a sum that is 0 leaves the base to the last bit."""
    flat = [tensor.reshape(-1) for tensor in inputs]
    start = base.reshape(-1)
    return lambda block: weighted([tensor[block] - start[block] for tensor in flat], weights)


OPERATORS = (
    Operator("linear", linear, (WEIGHT,), {"normalize": YES_NO}, base=False),
    Operator("slerp", slerp, (Parameter("t", 0.5, 0.0, 1.0),), base=False, fewest=2, most=2),
    Operator("task_arithmetic", task_arithmetic, (WEIGHT, SCALE), {"normalize": NO_YES}),
    Operator("model_stock", model_stock, fewest=2),
)
