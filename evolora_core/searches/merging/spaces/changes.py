"""Changes of a recipe tree, each of which acts on the recipe itself: what is recorded is what is merged.

A change is a function (recipe, shape of the space, random stream) -> another recipe, or None where it does not apply.
It may give a recipe that is too deep or equal to the old one: the space checks both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evolora_core.searches.merging.operators.registry import get_operator, operators
from evolora_core.searches.merging.recipe import DEEPEST, LAYERS, Node, Route, Step, depth
from evolora_core.searches.merging.spaces.trees import (
    as_value,
    group_count,
    inner,
    merged,
    merges,
    places,
    remade,
    replaced,
    route_over,
    routes,
    values_of,
)
from evolora_core.searches.merging.spaces.values import DIGITS, SPREAD, drawn, jittered

GROUPS = (1, 2, 4)  # granularities that a node may have
MOST_INPUTS = 8  # of a node that is drawn or grows
STRETCH = 2  # a route has at most so many times the layers of a parent
SHARED = 0.25  # probability that an input of a drawn node is a tree itself
LEAST_SCALE, MOST_SCALE = 0.25, 4.0  # of a step


@dataclass(frozen=True)
class Shape:
    """What a recipe is made over."""

    parents: tuple[str, ...]
    layers: int


Change: TypeAlias = Callable[[Node, Shape, np.random.Generator], Node | None]


# Drawing


def draw_node(shape: Shape, deepest: int, rng: np.random.Generator) -> Node:
    """A random tree with at least one operator: any operator or a route over two parents or more, or over trees."""
    names = [*operators(), LAYERS]
    op = names[int(rng.integers(len(names)))]
    count = int(rng.integers(2, min(len(shape.parents), MOST_INPUTS) + 1))
    if op != LAYERS and get_operator(op).most:
        count = min(count, get_operator(op).most)
    inputs: list[Node] = [shape.parents[place] for place in rng.permutation(len(shape.parents))[:count]]
    if deepest > 1 and rng.random() < SHARED * count:
        inputs[int(rng.integers(count))] = draw_node(shape, deepest - 1, rng)
    if op == LAYERS:
        steps = [Step(input=int(rng.integers(count)), layer=layer) for layer in range(shape.layers)]
        return route_over(inputs, steps, int(rng.integers(count)))
    groups = int(rng.choice(GROUPS))
    return merged(
        op,
        inputs,
        {
            own.name: drawn(own, (len(inputs) if own.each else 1, groups), rng)
            for own in get_operator(op).parameters
        },
    )  # fmt: skip


# Numbers


def _jitter(*names: str) -> Change:
    """The change that moves the values of a parameter with one of these names, in a node that has it."""

    def change(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
        found = [
            (path, node, own)
            for path, node in merges(recipe)
            for own in get_operator(node.op).parameters
            if own.name in names
        ]
        if not found:
            return None
        path, node, own = found[int(rng.integers(len(found)))]
        values = jittered(own, values_of(node, own, group_count(node)), rng)
        return replaced(recipe, path, remade(node, params={**node.params, own.name: as_value(own, values)}))

    return change


def step_scale(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """Another scale of one step of a route."""
    found = routes(recipe)
    if not found:
        return None
    path, node = found[int(rng.integers(len(found)))]
    place = int(rng.integers(len(node.route)))
    steps = list(node.route)
    scale = steps[place].scale * float(np.exp(SPREAD / 2 * rng.standard_normal()))
    steps[place] = Step(
        input=steps[place].input,
        layer=steps[place].layer,
        scale=round(min(max(scale, LEAST_SCALE), MOST_SCALE), DIGITS),
    )
    return replaced(recipe, path, remade(node, route=steps))


def granularity(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """Another number of layer groups. The values move a little too: equal ones in more groups are the same model."""
    found = [place for place in merges(recipe) if get_operator(place[1].op).parameters]
    if not found:
        return None
    path, node = found[int(rng.integers(len(found)))]
    now = group_count(node)
    groups = int(rng.choice([own for own in GROUPS if own != now]))
    params = dict(node.params)
    for own in get_operator(node.op).parameters:
        fine = values_of(node, own, now * groups)  # each new group is the mean of what it covers
        values = fine.reshape(len(fine), groups, now).mean(axis=2)
        params[own.name] = as_value(own, jittered(own, values, rng, 0.5))
    return replaced(recipe, path, remade(node, params=params))


# Operators and inputs


def swap_operator(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """Another operator over the same inputs. What both have is kept: weights, densities, scales."""
    found = merges(recipe)
    if not found:
        return None
    path, node = found[int(rng.integers(len(found)))]
    count = len(node.inputs)
    fitting = [
        own
        for own in operators().values()
        if own.name != node.op and own.fewest <= count and (not own.most or count <= own.most)
    ]
    if not fitting:
        return None
    new, old = fitting[int(rng.integers(len(fitting)))], get_operator(node.op)
    groups = group_count(node)
    known = {own.name: own for own in old.parameters}
    values = {
        own.name: values_of(node, known[own.name], groups)
        if own.name in known and known[own.name].each == own.each
        else drawn(own, (count if own.each else 1, groups), rng)
        for own in new.parameters
    }
    return replaced(recipe, path, merged(new.name, node.inputs, values, dict(node.options)))


def add_input(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """One more parent: with a drawn weight, or with one layer of a route."""
    found = [
        (path, node)
        for path, node in inner(recipe)
        if len(node.inputs) < MOST_INPUTS and (isinstance(node, Route) or not get_operator(node.op).most)
    ]
    found = [place for place in found if _missing(place[1], shape)]
    if not found:
        return None
    path, node = found[int(rng.integers(len(found)))]
    left = _missing(node, shape)
    new = left[int(rng.integers(len(left)))]
    if isinstance(node, Route):
        steps = list(node.route)
        place = int(rng.integers(len(steps)))
        steps[place] = Step(input=len(node.inputs), layer=steps[place].layer, scale=steps[place].scale)
        return replaced(recipe, path, route_over([*node.inputs, new], steps, node.rest))
    groups = group_count(node)
    values = {
        own.name: np.concatenate([values_of(node, own, groups), drawn(own, (1, groups), rng)])
        if own.each
        else values_of(node, own, groups)
        for own in get_operator(node.op).parameters
    }
    return replaced(recipe, path, merged(node.op, [*node.inputs, new], values, dict(node.options)))


def _missing(node: Node, shape: Shape) -> list[str]:
    """Parents that are no direct input."""
    return [] if isinstance(node, str) else [name for name in shape.parents if name not in node.inputs]


def remove_input(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """One input less: two are left at least."""
    found = [
        (path, node)
        for path, node in inner(recipe)
        if len(node.inputs) > (2 if isinstance(node, Route) else max(2, get_operator(node.op).fewest))
    ]
    if not found:
        return None
    path, node = found[int(rng.integers(len(found)))]
    gone = int(rng.integers(len(node.inputs)))
    if isinstance(node, Route):
        others = [number for number in range(len(node.inputs)) if number != gone]
        steps = [
            Step(input=others[int(rng.integers(len(others)))], layer=step.layer, scale=step.scale)
            if step.input == gone
            else step
            for step in node.route
        ]
        rest = others[int(rng.integers(len(others)))] if node.rest == gone else node.rest
        return replaced(recipe, path, route_over(node.inputs, steps, rest))
    groups = group_count(node)
    values = {
        own.name: np.delete(values_of(node, own, groups), gone, axis=0) if own.each else values_of(node, own, groups)
        for own in get_operator(node.op).parameters
    }
    inputs = [own for number, own in enumerate(node.inputs) if number != gone]
    return replaced(recipe, path, merged(node.op, inputs, values, dict(node.options)))


# Trees


def graft(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """A drawn tree in the place of a node, as deep as fits there."""
    found = [place for place in places(recipe) if place[0] and len(place[0]) < DEEPEST]
    if not found:
        return draw_node(shape, DEEPEST, rng)
    path, _ = found[int(rng.integers(len(found)))]
    return replaced(recipe, path, draw_node(shape, DEEPEST - len(path), rng))


def lift(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """An inner tree as the whole recipe: what makes recipes shallow again."""
    found = [node for path, node in places(recipe) if path and not isinstance(node, str)]
    return found[int(rng.integers(len(found)))] if found else None


def swap_range(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """A range of a route's steps from another input. A recipe without a route gets one, with a parent's range."""
    found = routes(recipe)
    if not found:
        if depth(recipe) >= DEEPEST:
            return None
        parent = shape.parents[int(rng.integers(len(shape.parents)))]
        steps = [Step(input=0, layer=layer) for layer in range(shape.layers)]
        return _ranged(Route(inputs=[recipe, parent], route=steps, rest=0), 1, rng)
    path, node = found[int(rng.integers(len(found)))]
    return replaced(recipe, path, _ranged(node, int(rng.integers(len(node.inputs))), rng))


def repeat_range(recipe: Node, shape: Shape, rng: np.random.Generator) -> Node | None:
    """A range of a route's steps once more, or left out."""
    found = routes(recipe)
    if not found:
        return None
    path, node = found[int(rng.integers(len(found)))]
    low, high = _range(len(node.route), rng)
    steps = list(node.route)
    if rng.random() < 0.5:
        steps = steps[:high] + steps[low:high] + steps[high:]
    else:
        steps = steps[:low] + steps[high:]
    if not 1 <= len(steps) <= STRETCH * shape.layers:
        return None
    return replaced(recipe, path, route_over(node.inputs, steps, node.rest))


def _range(count: int, rng: np.random.Generator) -> tuple[int, int]:
    """A range `low` to below `high` of at least one step."""
    low, high = sorted(int(end) for end in rng.choice(count + 1, size=2, replace=False))
    return low, high


def _ranged(node: Route, number: int, rng: np.random.Generator) -> Route:
    low, high = _range(len(node.route), rng)
    steps = [
        Step(input=number, layer=step.layer, scale=step.scale) if low <= place < high else step
        for place, step in enumerate(node.route)
    ]
    return route_over(node.inputs, steps, node.rest)


CHANGES: dict[str, Change] = {
    "weights": _jitter("weight"),
    "density": _jitter("density", "epsilon", "gamma", "select_topk"),
    "t": _jitter("t"),
    "scale": _jitter("scale"),
    "step-scale": step_scale,
    "granularity": granularity,
    "swap-operator": swap_operator,
    "add-input": add_input,
    "remove-input": remove_input,
    "graft": graft,
    "lift": lift,
    "swap-range": swap_range,
    "repeat-range": repeat_range,
}
