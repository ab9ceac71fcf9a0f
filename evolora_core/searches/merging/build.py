"""Makes weights of a recipe, one tensor at a time. A tensor depends on the recipe and its seed alone."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from evolora_core.engine.rng import key
from evolora_core.foreign.text import one_value
from evolora_core.searches.merging.agreement import disagreement, first_difference, sized
from evolora_core.searches.merging.folding import check_foldable, divisor
from evolora_core.searches.merging.layer_lists import routed_config, unlike_layer
from evolora_core.searches.merging.misfits import Misfit
from evolora_core.searches.merging.operators.registry import get_operator
from evolora_core.searches.merging.recipe import LAYERS, Genome, Merge, Node, Route, values_at
from evolora_core.searches.merging.weights import Weights, layer_of, layers_in, place_of

MASKS = "merge-mask"  # role of the random streams
OPERATIONS = 4  # for each weight of each input of an operator: subtract, compare or scale, add, and one more

Models = Mapping[str, Weights]


def merged_shapes(genome: Genome, models: Models, base: str) -> dict[str, tuple[int, ...]]:
    """Names and sizes of the merged model's tensors. Nothing is merged.

    Misfit, one line, where the recipe and the models do not fit.
    """
    return _shapes(genome.recipe, models, base)


def merged_tensor(genome: Genome, name: str, models: Models, base: str) -> Tensor:
    """One tensor of the merged model, float32. `merged_shapes` has checked that the models fit."""
    return _tensor(genome, genome.recipe, "", name, models, base)


def merged_config(genome: Genome, models: Models, base: str) -> dict[str, Any]:
    """The configuration of the merged model: that of the first input of a merge, of `rest` of a route, with what it
    says of single layers as the route has them."""
    return dict(_config(genome.recipe, models))


def layer_count(node: Node, models: Models) -> int:
    """How many layers the model of a recipe has. Misfit where inputs of an operator differ in depth."""
    if isinstance(node, str):
        return layers_in(_leaf(node, models).names)
    depths = [layer_count(inner, models) for inner in node.inputs]
    if isinstance(node, Route):
        for place, step in enumerate(node.route):
            if step.layer >= depths[step.input]:
                raise Misfit(
                    f"route: step {place}: {_called(node.inputs[step.input])} has {depths[step.input]} layers, "
                    f"so its last is {depths[step.input] - 1}, not {step.layer}"
                )
        return len(node.route)
    for inner, depth in zip(node.inputs, depths, strict=True):
        if depth != depths[0]:
            raise Misfit(
                f"operator {node.op!r}: {_called(node.inputs[0])} has {depths[0]} layers, {_called(inner)} {depth}; "
                "merge models of one depth, or choose layers with a route"
            )
    return depths[0]


def merge_flops(genome: Genome, models: Models) -> int:
    """Floating-point operations of a merge, by convention: 4 for each weight, input and operator. A route moves
    weights and computes nothing."""
    return _flops(genome.recipe, models)[0]


def _flops(node: Node, models: Models) -> tuple[int, int]:
    """Operations of a node and all below it, and the weights of its model."""
    if isinstance(node, str):
        own = _leaf(node, models)
        return 0, sum(prod(own.shape(name)) for name in own.names)
    below = [_flops(inner, models) for inner in node.inputs]
    spent, size = sum(operations for operations, _ in below), below[0][1]
    if isinstance(node, Merge):
        return spent + OPERATIONS * len(node.inputs) * size, size
    return spent, sum(prod(shape) for shape in _shapes(node, models, None).values())


def _tensor(genome: Genome, node: Node, path: str, name: str, models: Models, base: str) -> Tensor:
    """`path` leads from the root to the node: numbers of inputs, joined by dots."""
    if isinstance(node, str):
        return _leaf(node, models).get(name)
    if isinstance(node, Route):
        source, own, scale = _source(node, name)
        found = _tensor(genome, node.inputs[source], _below(path, source), own, models, base)
        return found if scale == 1 else found / scale
    operator = get_operator(node.op)
    inputs = [
        _tensor(genome, inner, _below(path, index), name, models, base) for index, inner in enumerate(node.inputs)
    ]
    start = _leaf(base, models).get(name) if operator.base else None
    place = place_of(name, layer_count(node, models))

    def draw(index: int) -> torch.Generator:
        return torch.Generator().manual_seed(key(genome.seed, 0, index, MASKS, path, name))

    return operator.apply(inputs, start, values_at(node, place), operator.choices(node.options), draw)


def _source(route: Route, name: str) -> tuple[int, str, float]:
    """Where a tensor of a route comes from: which input, its name there, and what it is divided by."""
    found = layer_of(name)
    if not found:
        return route.rest, name, 1.0
    prefix, place, rest = found
    step = route.route[place]
    return step.input, f"{prefix}.{step.layer}.{rest}", divisor(route, place, rest)


def _shapes(node: Node, models: Models, base: str | None) -> dict[str, tuple[int, ...]]:
    """Names and sizes of the tensors of a node's model; checks on the way that everything fits. Without `base`, what
    concerns the base is not checked."""
    if isinstance(node, str):
        own = _leaf(node, models)
        return {name: own.shape(name) for name in own.names}
    layer_count(node, models)
    _check_settings(node.op, node.inputs, models)
    below = [_shapes(inner, models, base) for inner in node.inputs]
    if isinstance(node, Route):
        return _routed(node, below, models)
    for inner, shapes in zip(node.inputs[1:], below[1:], strict=True):
        _check_same(node.op, _called(node.inputs[0]), below[0], _called(inner), shapes)
    if get_operator(node.op).base and base is not None:
        if base not in models:
            raise Misfit(f"operator {node.op!r} works on differences from a common base; declare one with `base`")
        _check_same(node.op, _called(node.inputs[0]), below[0], f"the base {base!r}", _shapes(base, models, base))
        _check_settings(node.op, [*node.inputs, base], models)
    return below[0]


def _routed(node: Route, below: Sequence[Mapping[str, tuple[int, ...]]], models: Models) -> dict[str, tuple[int, ...]]:
    """Names and sizes of a route's tensors: what stands before the layers, the layers, what stands behind them."""
    check_foldable(node, _config(node.inputs[node.rest], models))
    layers: list[dict[int, list[tuple[str, str, tuple[int, ...]]]]] = []
    for shapes in below:
        own: dict[int, list[tuple[str, str, tuple[int, ...]]]] = {}
        for name, shape in shapes.items():
            if found := layer_of(name):
                own.setdefault(found[1], []).append((found[0], found[2], shape))
        layers.append(own)
    result: dict[str, tuple[int, ...]] = {}
    stacked = False
    for name, shape in below[node.rest].items():
        if not layer_of(name):
            result[name] = shape
        elif not stacked:
            stacked = True
            for place, step in enumerate(node.route):
                for prefix, rest, size in layers[step.input].get(step.layer, []):
                    result[f"{prefix}.{place}.{rest}"] = size
    return result


def _check_settings(op: str, inputs: Sequence[Node], models: Models) -> None:
    """Raise Misfit unless the models compute in the same way with their weights; of a merge, layer by layer."""
    own, deep = _config(inputs[0], models), layer_count(inputs[0], models)
    for inner in inputs[1:]:
        other = _config(inner, models)
        unlike = unlike_layer(own, other, deep) if op != LAYERS else None
        if key_of := disagreement(own, other):
            unlike = key_of, own.get(key_of), other.get(key_of)
        if unlike:
            key_of, one, two = unlike[0], one_value(unlike[1]), one_value(unlike[2])
            raise Misfit(
                f"operator {op!r}: config.json: {key_of} is {one} in {_called(inputs[0])} and {two} in "
                f"{_called(inner)}; merge models of one architecture"
            )


def _check_same(
    op: str, name: str, own: Mapping[str, tuple[int, ...]], other_name: str, other: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise Misfit unless two models have the same tensors."""
    if tensor := first_difference(own, other):
        one, two = sized(own.get(tensor)), sized(other.get(tensor))
        raise Misfit(
            f"operator {op!r}: {tensor} is {one} in {name} and {two} in {other_name}; merge models of one shape"
        )


def _config(node: Node, models: Models) -> Mapping[str, Any]:
    if isinstance(node, str):
        return _leaf(node, models).config
    if isinstance(node, Merge):
        return _config(node.inputs[0], models)
    layer_count(node, models)
    configs = [_config(inner, models) for inner in node.inputs]
    return routed_config(configs[node.rest], [(configs[step.input], step.layer) for step in node.route])


def _leaf(name: str, models: Models) -> Weights:
    if name not in models:
        raise Misfit(f"model {name!r} is unknown; there are {', '.join(models) or 'none'}")
    return models[name]


def _called(node: Node) -> str:
    return repr(node) if isinstance(node, str) else f"the recipe of {node.op!r}"


def _below(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)
