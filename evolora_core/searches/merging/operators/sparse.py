"""Operators that thin the task vectors out, then add them up or let them elect signs.

By how they thin out: TIES keeps the largest magnitudes, DARE random elements, DELLA random ones of which large
magnitudes are likelier, breadcrumbs those that are neither small nor outliers. By what follows, with d the thinned τ:

    sum         θ₀ + scale · Σ wᵢdᵢ [/ Σ wᵢ]
    consensus   the same in every element over those i alone whose wᵢdᵢ has the elected sign

The default of every weight is 1, of the scale 1 and of the density 1, with which nothing is thinned out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from evolora_core.searches.merging.operators import deltas
from evolora_core.searches.merging.operators.averages import NO_YES, SCALE, WEIGHT, YES_NO
from evolora_core.searches.merging.operators.base import Draw, Operator, Parameter

DENSITY = Parameter("density", 1.0, 0.0, 1.0, each=True)
EPSILON = Parameter("epsilon", 0.15, 0.0, 0.5, each=True)
GAMMA = Parameter("gamma", 0.01, 0.0, 1.0, each=True, most=0.1)  # outliers are few
RESCALE = ("inverse_p", "l1", "none")

# (flat τ of an input, the tensor's shape, the input's own parameters, options, its stream) -> the thinned τ. May write
# to τ. The stream is asked for where it is needed alone.
Thin = Callable[[Tensor, Sequence[int], Mapping[str, float], Mapping[str, str], Callable[[], torch.Generator]], Tensor]


def _ties(tau: Tensor, shape: Any, own: Mapping[str, float], options: Mapping[str, str], stream: Any) -> Tensor:
    return deltas.trim(tau, own["density"])


def _dare(tau: Tensor, shape: Any, own: Mapping[str, float], options: Mapping[str, str], stream: Any) -> Tensor:
    return deltas.drop(tau, own["density"], options["rescale"], stream())


def _della(tau: Tensor, shape: Any, own: Mapping[str, float], options: Mapping[str, str], stream: Any) -> Tensor:
    return deltas.drop_by_rank(tau, shape, own["density"], own["epsilon"], options["rescale"], stream())


def _breadcrumbs(tau: Tensor, shape: Any, own: Mapping[str, float], options: Mapping[str, str], stream: Any) -> Tensor:
    return deltas.trim_between(tau, own["density"], own["gamma"])


def _sum(parts: Sequence[Tensor], weights: Sequence[float], normalize: bool) -> Tensor:
    return deltas.weighted(parts, weights).div_(deltas.divisor(weights, normalize))


def _consensus(parts: Sequence[Tensor], weights: Sequence[float], normalize: bool) -> Tensor:
    total, divisor = deltas.elected(parts, weights, weights)
    return total.div_(divisor.masked_fill_(divisor.abs() < deltas.TINY, 1)) if normalize else total


def _operator(
    name: str,
    thin: Thin,
    join: Callable[[Sequence[Tensor], Sequence[float], bool], Tensor],
    normalize: tuple[str, str],
    *more: Parameter,
    rescale: bool = False,
) -> Operator:
    """An operator of the two halves; `normalize` has the default first, which is mergekit's."""
    own = (DENSITY, *more)

    def apply(
        inputs: Sequence[Tensor], base: Tensor | None, params: Mapping[str, Any], options: Mapping[str, str], draw: Draw
    ) -> Tensor:
        assert base is not None
        thinned = [
            thin(
                tau,
                base.shape,
                {parameter.name: params[parameter.name][index] for parameter in own},
                options,
                partial(draw, index),
            )
            for index, tau in enumerate(deltas.differences(inputs, base))
        ]

        def step(block: slice) -> Tensor:
            return join([tau[block] for tau in thinned], params["weight"], options["normalize"] == "yes")

        return deltas.moved(base, step, params["scale"])

    options = {"normalize": normalize} | ({"rescale": RESCALE} if rescale else {})
    return Operator(name, apply, (WEIGHT, *own, SCALE), options)


OPERATORS = (
    _operator("ties", _ties, _consensus, YES_NO),
    _operator("dare_linear", _dare, _sum, NO_YES, rescale=True),
    _operator("dare_ties", _dare, _consensus, NO_YES, rescale=True),
    _operator("della_linear", _della, _sum, NO_YES, EPSILON, rescale=True),
    _operator("della", _della, _consensus, YES_NO, EPSILON, rescale=True),
    _operator("breadcrumbs", _breadcrumbs, _sum, NO_YES, GAMMA),
    _operator("breadcrumbs_ties", _breadcrumbs, _consensus, NO_YES, GAMMA),
)
