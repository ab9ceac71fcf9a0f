"""The three-stage recipes that evolution begins with: 2^3 of {linear, slerp} x {ties, dare_ties} x {round-robin,
data-flow}, over all parents.

Stage 1 merges parents, stage 2 merges the outcome and every parent as differences from the base, stage 3 takes layers
from the outcome and the parents. The system that had them first applied its three stages alike; its slerp took two
models and made a lerp with the third, here the pair is drawn and the others come in at stage 2.
"""

import numpy as np

from evolora_core.searches.merging.operators.registry import get_operator
from evolora_core.searches.merging.recipe import Merge, Node, Route, Step
from evolora_core.searches.merging.spaces.changes import Shape
from evolora_core.searches.merging.spaces.trees import group_count, merged, merges, replaced, values_of
from evolora_core.searches.merging.spaces.values import DIGITS

FIRST = ("linear", "slerp")
SECOND = ("ties", "dare_ties")
THIRD = ("round-robin", "data-flow")
DENSITY = 0.5  # of stage 2
SPREAD = 0.1  # standard deviation of the logarithm of a step's scale


def first(op: str, shape: Shape, rng: np.random.Generator) -> Merge:
    """Stage 1: the mean of all parents, or halfway along the arc between two of them."""
    if op == "linear":
        return merged(op, shape.parents)
    pair = [shape.parents[place] for place in rng.permutation(len(shape.parents))[:2]]
    return merged(op, pair)


def second(op: str, inner: Node, shape: Shape) -> Merge:
    """Stage 2: the outcome and every parent, half of each difference kept; TIES takes means, and so does DARE here."""
    inputs: list[Node] = [inner, *shape.parents]
    return merged(op, inputs, {"density": np.full((len(inputs), 1), DENSITY)}, {"normalize": "yes"})


def third(name: str, inner: Node, shape: Shape, rng: np.random.Generator) -> Route:
    """Stage 3: layers from each in turn, or each from the outcome or, half the time, a drawn parent, and scaled."""
    inputs: list[Node] = [inner, *shape.parents]
    if name == "round-robin":
        steps = [Step(input=layer % len(inputs), layer=layer) for layer in range(shape.layers)]
    else:
        steps = []
        for layer in range(shape.layers):
            number = int(rng.integers(1, len(inputs))) if rng.random() < 0.5 else 0
            scale = round(float(np.exp(SPREAD * rng.standard_normal())), DIGITS)
            steps.append(Step(input=number, layer=layer, scale=scale))
    return Route(inputs=inputs, route=steps, rest=0)


def recipes(shape: Shape, rng: np.random.Generator) -> list[tuple[Route, str]]:
    """The eight, each with the names of its stages."""
    return [
        (third(last, second(middle, first(inner, shape, rng), shape), shape, rng), f"{inner}+{middle}+{last}")
        for inner in FIRST
        for middle in SECOND
        for last in THIRD
    ]


def redrawn(recipe: Node, shape: Shape, rng: np.random.Generator) -> tuple[Node, str]:
    """One of the three fields of a recipe drawn anew, and its name; half of the draws give the old operator. A field
    that the recipe lacks stays missing: the recipe is as it was.
    """
    field = int(rng.integers(3))
    if field == 0:
        op = FIRST[int(rng.integers(2))]
        for path, node in merges(recipe):
            if node.op in FIRST and all(isinstance(inner, str) for inner in node.inputs):
                return replaced(recipe, path, first(op, shape, rng)) if node.op != op else recipe, "continuous"
    elif field == 1:
        op = SECOND[int(rng.integers(2))]
        for path, node in merges(recipe):
            if node.op in SECOND and node.op != op:
                groups = group_count(node)
                values = {own.name: values_of(node, own, groups) for own in get_operator(node.op).parameters}
                return replaced(recipe, path, merged(op, node.inputs, values, dict(node.options))), "ensemble"
    elif isinstance(recipe, Route):
        name = THIRD[int(rng.integers(2))]
        return third(name, recipe.inputs[0], shape, rng), "structured"
    return recipe, ("continuous", "ensemble", "structured")[field]
