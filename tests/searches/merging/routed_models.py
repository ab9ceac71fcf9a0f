"""The model of a route as it is meant: layers of several models in a row, what enters each multiplied by its scale.

It says what `folding` must come to, for small models; nothing is folded here.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from tiny_merges import build

from evolora_core.searches.merging.build import merged_config
from evolora_core.searches.merging.misfits import Misfit
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.recipe import Genome, Node, Route
from evolora_core.searches.merging.weights import Weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def routed_model(genome: Genome, models: Mapping[str, Weights], base: str) -> "PreTrainedModel":
    """A model that runs the route at the root of a recipe. Its inputs are built first, so each must fit into memory."""
    route = genome.recipe
    if not isinstance(route, Route):
        raise Misfit("recipe: its root is no route; begin it with `op: layers`")

    def whole(node: Node) -> Any:
        own = Genome(recipe=node, seed=genome.seed)
        model = shell(merged_config(own, models, base), "cpu")
        fill(model, build(own, models, base).__getitem__)
        return model

    inputs = [whole(node) for node in route.inputs]
    result = inputs[route.rest] if len(inputs) == 1 else deepcopy(inputs[route.rest])
    layers = torch.nn.ModuleList()
    for place, step in enumerate(route.route):
        layer = deepcopy(inputs[step.input].model.layers[step.layer])
        layer.self_attn.layer_idx = place  # where it keeps its keys and values
        layer.register_forward_pre_hook(_scaled(step.scale), with_kwargs=True)
        layers.append(layer)
    result.model.layers = layers
    for key, value in merged_config(genome, models, base).items():
        if key == "num_hidden_layers" or isinstance(value, list):
            setattr(result.config, key, value)
    found: PreTrainedModel = result
    return found


def _scaled(scale: float) -> Any:
    """A hook that multiplies a layer's first argument, the hidden states [rows, tokens, width]."""

    def hook(module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if arguments:
            return (arguments[0] * scale, *arguments[1:]), named
        return arguments, named | {"hidden_states": named["hidden_states"] * scale}

    return hook
