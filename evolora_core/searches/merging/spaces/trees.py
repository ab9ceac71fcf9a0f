"""Recipes as trees: where their nodes are, putting another node in a place, and parameters as arrays.

Recipes are immutable: what changes one makes another.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from evolora_core.engine.strict import stated
from evolora_core.searches.merging.operators.base import Parameter
from evolora_core.searches.merging.operators.registry import get_operator
from evolora_core.searches.merging.recipe import Groups, Merge, Node, Route, Step, Value, depth
from evolora_core.searches.merging.spaces.values import as_groups, grid, tidy

Path: TypeAlias = tuple[int, ...]  # which input to take at each node on the way from the root


def places(node: Node, at: Path = ()) -> list[tuple[Path, Node]]:
    """Every node with the way to it, the root first."""
    below = [] if isinstance(node, str) else enumerate(node.inputs)
    return [(at, node), *(place for number, own in below for place in places(own, (*at, number)))]


def inner(node: Node) -> list[tuple[Path, Route | Merge]]:
    """The nodes that are no models."""
    return [(path, own) for path, own in places(node) if not isinstance(own, str)]


def merges(node: Node) -> list[tuple[Path, Merge]]:
    """The nodes that merge tensors."""
    return [(path, own) for path, own in places(node) if isinstance(own, Merge)]


def routes(node: Node) -> list[tuple[Path, Route]]:
    """The nodes that stack layers."""
    return [(path, own) for path, own in places(node) if isinstance(own, Route)]


def replaced(node: Node, path: Path, new: Node) -> Node:
    """The tree with another node at a place."""
    if not path:
        return new
    assert not isinstance(node, str)
    inputs = list(node.inputs)
    inputs[path[0]] = replaced(inputs[path[0]], path[1:], new)
    return remade(node, inputs=inputs)


def remade(node: Route | Merge, **changes: Any) -> Route | Merge:
    """A node with other fields. It is checked anew."""
    return type(node)(**{name: getattr(node, name) for name in type(node).model_fields} | changes)


def same(one: Node, other: Node) -> bool:
    """Whether two recipes are equal."""
    return bool(_plain(one) == _plain(other))


def _plain(node: Node) -> Any:
    return node if isinstance(node, str) else stated(node)


def group_count(node: Merge) -> int:
    """Groups of layers that a node tells apart."""
    each = {own.name for own in get_operator(node.op).parameters if own.each}
    counts = [1]
    for name, value in node.params.items():
        rows = value if isinstance(value, list) and name in each else [value]
        counts += [len(row) for row in rows if isinstance(row, list)]
    return max(counts)


def values_of(node: Merge, parameter: Parameter, groups: int) -> np.ndarray:
    """Values of a parameter, `[inputs, groups]`, or `[1, groups]` of a shared one."""
    value = node.params.get(parameter.name, parameter.default)
    return grid(value if parameter.each else [value], len(node.inputs) if parameter.each else 1, groups)


def as_value(parameter: Parameter, values: np.ndarray) -> Value:
    """What `values_of` gave, as a recipe has it."""
    rows: list[Groups] = [as_groups(row) for row in tidy(np.clip(values, parameter.low, parameter.high))]
    if parameter.each:
        return rows
    return [*rows[0]] if isinstance(rows[0], list) else rows[0]


def merged(
    op: str, inputs: Sequence[Node], values: dict[str, np.ndarray] | None = None, options: dict[str, str] | None = None
) -> Merge:
    """A node of an operator; parameters without values, which are `[inputs or 1, groups]`, stand at their defaults."""
    operator, given = get_operator(op), values or {}
    groups = max([1, *(own.shape[1] for own in given.values())])
    params = {}
    for parameter in operator.parameters:
        rows = len(inputs) if parameter.each else 1
        params[parameter.name] = as_value(
            parameter, given.get(parameter.name, np.full((rows, groups), parameter.default))
        )
    kept = {name: choice for name, choice in (options or {}).items() if choice in operator.options.get(name, ())}
    return Merge(op=op, inputs=list(inputs), params=params, options=kept)


def route_over(inputs: Sequence[Node], steps: Sequence[Step], rest: int) -> Route:
    """A route over equal inputs once each, and over none that it does not use."""
    kept: list[Node] = []
    place: dict[int, int] = {}
    for number, node in enumerate(inputs):
        if number != rest and not any(step.input == number for step in steps):
            continue
        twin = next((own for own, other in enumerate(kept) if same(node, other)), None)
        place[number] = len(kept) if twin is None else twin
        if twin is None:
            kept.append(node)
    moved = [Step(input=place[step.input], layer=step.layer, scale=step.scale) for step in steps]
    return Route(inputs=kept, route=moved, rest=place[rest])


def as_route(node: Node, layers: int) -> Route:
    """The node if it is a route, else its layers in order."""
    if isinstance(node, Route):
        return node
    return Route(inputs=[node], route=[Step(input=0, layer=layer) for layer in range(layers)], rest=0)


def lowered(node: Node, deepest: int) -> Node:
    """The first node of at most that depth on the path of first inputs, from the root down."""
    while not isinstance(node, str) and depth(node) > deepest:
        node = node.inputs[0]
    return node
