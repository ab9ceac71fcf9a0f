"""The file of `evolora merge make`: a recipe, and what the names in it stand for.

models: {base: smollm2-135m, code: my-code, math: my-math}
base: base
recipe: {op: ties, inputs: [code, math], params: {density: 0.4}}
dtype: bfloat16
"""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

from evolora_core.engine.strict import Document, Seed, Strict, checked, explain_fault, read_settings
from evolora_core.errors import ConfigError
from evolora_core.searches.merging.operators.registry import get_operator
from evolora_core.searches.merging.recipe import DEEPEST, LAYERS, Genome, Merge, Node, Route, depth, leaves, nodes
from evolora_core.searches.merging.streaming import DTYPES


class RecipeFile(Strict):
    """A recipe whose models are named."""

    models: dict[str, str] = Field(
        min_length=1, description="each model by its name: a host, a hub id, a folder or a GGUF file"
    )
    base: str | None = Field(
        None, validate_default=True, description="name of the model that the others come from, where one is needed"
    )
    recipe: Node = Field(description="a model's name, or a tree of operators")
    seed: Seed = Field(0, description="seed of the random masks of DARE and DELLA")
    dtype: str = Field("float32", pattern=f"^({'|'.join(DTYPES)})$", description=", ".join(DTYPES))
    tokenizer: str | None = Field(None, description="model whose tokenizer is taken; the base, or the first one used")

    @field_validator("base", "tokenizer")
    @classmethod
    def _is_a_model(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            _check_known(value, info)
        return value

    @field_validator("recipe")
    @classmethod
    def _has_its_models(cls, recipe: Node, info: ValidationInfo) -> Node:
        for name in leaves(recipe):
            _check_known(name, info)
        if depth(recipe) > DEEPEST:
            raise ValueError(f"{depth(recipe)} operators lie on top of each other; {DEEPEST} may")
        for node in nodes(recipe):
            if isinstance(node, Merge) and get_operator(node.op).base and info.data.get("base", "") is None:
                raise ValueError(f"operator {node.op!r} works on differences from a common base; add the key `base`")
        return recipe

    @property
    def genome(self) -> Genome:
        """The recipe without what its names stand for."""
        return Genome(recipe=self.recipe, seed=self.seed)

    @property
    def tokenizer_name(self) -> str:
        """The model whose tokenizer is taken."""
        return self.tokenizer or self.base or leaves(self.recipe)[0]

    @property
    def used(self) -> dict[str, str]:
        """The models that are needed to make the recipe."""
        needed = {*leaves(self.recipe), self.tokenizer_name, *([self.base] if self.base else [])}
        return {name: word for name, word in self.models.items() if name in needed}


def load_recipe(path: Path) -> RecipeFile:
    """Read a recipe file. ConfigError with the file, the line and the key or operator that is wrong."""
    return _checked(read_settings(path))


def parse_recipe(values: Mapping[str, Any]) -> RecipeFile:
    """What stands in a recipe file, as plain data; a folder may be a path. ConfigError with the key or operator that is
    wrong."""
    plain = dict(values)
    if isinstance(models := plain.get("models"), Mapping):
        plain["models"] = {name: str(word) if isinstance(word, PathLike) else word for name, word in models.items()}
    return _checked(Document(plain, Path("recipe"), {}, ()))


def _checked(document: Document) -> RecipeFile:
    if "recipe" in document.values:
        _check_node(document.values["recipe"], ("recipe",), document)
    return checked(document, RecipeFile)


def _check_known(name: str, info: ValidationInfo) -> None:
    models = info.data.get("models")
    if models is not None and name not in models:
        raise ValueError(f"model {name!r} is unknown; `models` has {', '.join(models)}")


def _check_node(value: Any, place: tuple[str, ...], document: Document) -> None:
    """Raise ConfigError for the first node that is wrong. A node is a name, a route or a merge: as one of three it
    would be told three times what it is not."""
    if not isinstance(value, dict):
        if not isinstance(value, str):
            raise ConfigError(f"{_at(document, place)}: expected a model's name, or an operator with `op` and `inputs`")
        return
    kind: type[BaseModel] = Route if "route" in value or value.get("op") == LAYERS else Merge
    inputs = value.get("inputs")
    stand_ins = ["model"] * len(inputs) if isinstance(inputs, list) else inputs
    try:
        kind.model_validate(value | {"inputs": stand_ins} if "inputs" in value else value)
    except ValidationError as error:
        fault = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        told = fault["msg"].removeprefix("Value error, ").partition(":")[0]  # `params: …` is about that key
        where = fault["loc"] or (told if told in value else "op",)
        raise ConfigError(
            f"{_at(document, (*place, *map(str, where)))}: {'.'.join(place)}: {explain_fault(error, kind)}"
        ) from error
    if len(place) > 40:
        raise ConfigError(f"{_at(document, place)}: the recipe is nested too deeply; {DEEPEST} operators may be")
    for index, inner in enumerate(inputs or []):
        _check_node(inner, (*place, "inputs", str(index)), document)


def _at(document: Document, place: tuple[str, ...]) -> str:
    """File and line of a key, or of what it is in."""
    lines: Mapping[tuple[str, ...], int] = document.lines
    while place and place not in lines:
        place = place[:-1]
    return f"{document.path}:{lines.get(place, 1)}"
