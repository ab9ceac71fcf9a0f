"""The genome: a typed recipe. It alone decides the weights of a merged model; they are a cache of it.

A recipe is a tree. Its leaves are names of models, its inner nodes are of two kinds:

    {"op": "ties", "inputs": ["code", "math"], "params": {"weight": [[0.5, 0.7], 1.0], "density": 0.4, "scale": 1.0}}
    {"op": "layers", "inputs": ["code", "math"], "route": [{"input": 0, "layer": 0}, {"input": 1, "layer": 1}]}

The first merges tensors of the same name. A parameter of the whole node is a number, or one number for each group of
layers. A parameter of each input is such a value for all of them, or a list with one for each: `weight` above is two
groups for `code` and one value for `math`. The second stacks layers: each step of a route says which input, which of
its layers, and by how much what enters the layer is scaled. What is outside of the layers comes from the input `rest`.

Canonical JSON of the recipe and the seed of its random masks, hashed, is the identity of a candidate.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, TypeAlias

from pydantic import Field, field_validator, model_validator

from evolora_core.engine.strict import Seed, Strict, stated
from evolora_core.searches.merging.operators.registry import get_operator

DEEPEST = 3  # operators on the way from the root to a leaf
LAYERS = "layers"  # the operator of a route
ROUNDING = 1e-9  # 15 / 26 * 26 is less than 15

Groups: TypeAlias = float | list[float]  # one value, or one for each group of layers
Value: TypeAlias = float | list[Groups]  # a shared parameter is `Groups`; one of each input may be a list of those


class Step(Strict):
    """A layer on a route."""

    input: int = Field(ge=0, description="which input the layer is taken from")
    layer: int = Field(ge=0, description="which of its layers")
    scale: float = Field(1.0, gt=0, le=100, description="by how much what enters the layer is scaled")


class Merge(Strict):
    """Tensors of the same name, merged by an operator."""

    op: str = Field(description="name of the operator")
    inputs: list["Node"] = Field(min_length=1, max_length=64, description="models, or recipes of models")
    params: dict[str, Value] = Field({}, description="its parameters: a number, or numbers by input and layer group")
    options: dict[str, str] = Field({}, description="its choices, such as `rescale: l1`")

    @field_validator("options", mode="before")
    @classmethod
    def _says_yes(cls, given: Any) -> Any:
        """In YAML an unquoted yes is a truth value."""
        if not isinstance(given, dict):
            return given
        return {key: ("no", "yes")[value] if isinstance(value, bool) else value for key, value in given.items()}

    @model_validator(mode="after")
    def _fits_the_operator(self) -> "Merge":
        get_operator(self.op).check(len(self.inputs), self.params, self.options)
        return self


class Route(Strict):
    """Layers of the inputs, stacked."""

    op: Annotated[str, Field(pattern=f"^{LAYERS}$", description="`layers`")] = LAYERS
    inputs: list["Node"] = Field(min_length=1, max_length=64, description="models, or recipes of models")
    route: list[Step] = Field(min_length=1, max_length=512, description="the layers, from the first to the last")
    rest: int = Field(0, ge=0, description="the input whose embeddings, last norm and head are taken")

    @model_validator(mode="after")
    def _has_its_inputs(self) -> "Route":
        for step in self.route:
            if step.input >= len(self.inputs):
                raise ValueError(f"route: input {step.input} is not there; the inputs are 0 to {len(self.inputs) - 1}")
        if self.rest >= len(self.inputs):
            raise ValueError(f"rest: input {self.rest} is not there; the inputs are 0 to {len(self.inputs) - 1}")
        return self


Node: TypeAlias = Route | Merge | str  # tried from left to right: only a route has the key `route`


class Genome(Strict):
    """A recipe and the seed of its random masks. Names of models say what they stand for elsewhere."""

    recipe: Node = Field(description="a model's name, or a tree of operators")
    seed: Seed = Field(0, description="seed of the random masks of DARE and DELLA")

    @model_validator(mode="after")
    def _is_shallow(self) -> "Genome":
        if depth(self.recipe) > DEEPEST:
            raise ValueError(f"recipe: {depth(self.recipe)} operators lie on top of each other; {DEEPEST} may")
        return self

    @cached_property  # strategies ask every generation for the identity of every candidate
    def text(self) -> str:
        """Canonical JSON."""
        return json.dumps(stated(self), sort_keys=True, separators=(",", ":"))

    @cached_property
    def id(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @classmethod
    def read(cls, text: str) -> "Genome":
        """What `text` gave."""
        return cls.model_validate_json(text)


def depth(node: Node) -> int:
    """Operators on the longest way to a leaf."""
    return 0 if isinstance(node, str) else 1 + max(map(depth, node.inputs))


def nodes(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    if not isinstance(node, str):
        for inner in node.inputs:
            yield from nodes(inner)


def leaves(node: Node) -> list[str]:
    """Names of the models, each once, in the order in which they occur."""
    return list(dict.fromkeys(inner for inner in nodes(node) if isinstance(inner, str)))


def at_group(value: Groups, group: float) -> float:
    """A value at a place in the model: `group` is from 0 (the first layer) to below 1 (behind the last)."""
    if not isinstance(value, list):
        return float(value)
    return float(value[group_at(group, len(value))])


def group_at(place: float, groups: int) -> int:
    """The group at a place in the model, from 0 to below 1, where so many are equally long."""
    return min(int(place * groups + ROUNDING), groups - 1)


def values_at(node: Merge, group: float) -> Mapping[str, Any]:
    """All parameters of a node at a place in the model: a float, or for a parameter of each input a list of them.
    Defaults are filled in.
    """
    return get_operator(node.op).resolve(node.params, len(node.inputs), lambda value: at_group(value, group))
