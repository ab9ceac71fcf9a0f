"""Scales of a route, written into the weights.

What enters layer l is multiplied by its scale wₗ: xₗ₊₁ = Lₗ(wₗxₗ). Let c be the product of the scales so far, wₗ
included. A layer L(x) = x + A(x) + M(x + A(x)) whose branches see their input through an RMS norm alone does not
notice that input's length. So with x' = x/c the same answers come from layers without scales, whose branches are
divided by c; the last norm takes the rest away. That is exact up to the norms' epsilon, and the branches end in a
linear map each. So a scaled route is an ordinary model.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from evolora_core.searches.merging.misfits import Misfit
from evolora_core.searches.merging.recipe import Route

FOLDABLE = ("llama", "mistral", "phi3", "qwen2", "qwen3", "smollm3")  # every branch: RMS norm, map, linear; added
WRITERS = ("self_attn.o_proj.weight", "self_attn.o_proj.bias", "mlp.down_proj.weight", "mlp.down_proj.bias")


def divisor(route: Route, step: int, rest: str) -> float:
    """What a tensor of a step is divided by; `rest` is its name within the layer."""
    return prod(own.scale for own in route.route[: step + 1]) if rest in WRITERS else 1.0


def check_foldable(route: Route, config: Mapping[str, Any]) -> None:
    """Raise Misfit for scales where weights cannot express them."""
    kind = config.get("model_type")
    if any(step.scale != 1 for step in route.route) and kind not in FOLDABLE:
        raise Misfit(f"route: scales of {kind} layers cannot be written into weights; leave them at 1")
