"""A recipe in mergekit's language, where it has the words: one operator over models, or a route without scales.

Values by layer group become slices. mergekit draws the masks of DARE and DELLA from a stream of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from evolora_core.errors import ConfigError
from evolora_core.searches.merging.build import layer_count, merged_config
from evolora_core.searches.merging.layer_lists import is_per_layer
from evolora_core.searches.merging.operators.base import Operator
from evolora_core.searches.merging.operators.registry import get_operator
from evolora_core.searches.merging.recipe import Genome, Merge, Node, Route, values_at
from evolora_core.searches.merging.weights import Weights

NAMES = {"scale": "lambda"}  # parameters that mergekit calls otherwise


def mergekit_yaml(
    genome: Genome,
    models: Mapping[str, Weights],
    base: str,
    words: Mapping[str, str],
    dtype: str = "float32",
    tokenizer: str | None = None,
) -> str:
    """The YAML that makes mergekit merge the same. `words` are folders or hub ids of the models; `tokenizer` is the
    name of the one whose tokenizer is taken.

    ConfigError, one line, where mergekit cannot express the recipe.
    """
    recipe = genome.recipe
    if isinstance(recipe, str):
        document = _passthrough([(recipe, [0, layer_count(recipe, models)])], words)
    elif isinstance(recipe, Route):
        document = _route(genome, recipe, models, base, words)
    else:
        document = _merge(recipe, models, base, words)
    taken = document.get("base_model") or document["slices"][0]["sources"][0]["model"]
    if tokenizer is not None and words[tokenizer] != taken:
        document["tokenizer"] = {"source": words[tokenizer]}
    text: str = yaml.safe_dump(document | {"dtype": "float32", "out_dtype": dtype}, sort_keys=False)
    return text


def _merge(node: Merge, models: Mapping[str, Weights], base: str, words: Mapping[str, str]) -> dict[str, Any]:
    operator = get_operator(node.op)
    inputs = [_model(inner) for inner in node.inputs]
    start = base if operator.base else inputs[0] if node.op == "slerp" else None
    if len(set(inputs)) < len(inputs) or (operator.base and base in inputs):
        raise _no("a model is named twice")
    layers = layer_count(node, models)
    slices = []
    for first, last in _runs(node, layers):
        values = values_at(node, first / layers)
        if "epsilon" in values and not all(map(_within, values["density"], values["epsilon"])):
            raise _no("density ± epsilon of DELLA must lie between 0 and 1")
        shared = {NAMES.get(name, name): value for name, value in values.items() if not isinstance(value, list)}
        sources: list[dict[str, Any]] = []
        for index, name in enumerate(inputs):
            own = {NAMES.get(key, key): value[index] for key, value in values.items() if isinstance(value, list)}
            sources.append(_source(words[name], first, last) | ({"parameters": own} if own else {}))
        if start is not None and start not in inputs:
            sources.append(_source(words[start], first, last))
        slices.append({"sources": sources} | ({"parameters": shared} if shared else {}))
    document: dict[str, Any] = {"merge_method": node.op, "slices": slices}
    if start is not None:
        document["base_model"] = words[start]
    if options := _options(operator, node):
        document["parameters"] = options
    return document


def _options(operator: Operator, node: Merge) -> dict[str, bool]:
    found = {}
    for name, choice in operator.choices(node.options).items():
        if name == "rescale":
            if choice == "inverse_p" and any(value < 1 for value in _flat(node.params.get("density", 1.0))):
                raise _no("it rescales what DARE and DELLA keep by `rescale: l1` or not at all")
            found[name] = choice != "none"
        elif choice in ("yes", "no"):
            found[name] = choice == "yes"
        else:
            raise _no(f"it has no option {name}")
    return found


def _runs(node: Merge, layers: int) -> Iterator[tuple[int, int]]:
    """Runs of layers, first and behind the last, in which every parameter has one value."""
    values = [values_at(node, layer / layers) for layer in range(layers)]
    first = 0
    for layer in range(1, layers + 1):
        if layer == layers or values[layer] != values[first]:
            yield first, layer
            first = layer


def _route(
    genome: Genome, route: Route, models: Mapping[str, Weights], base: str, words: Mapping[str, str]
) -> dict[str, Any]:
    inputs = [_model(inner) for inner in route.inputs]
    if any(step.scale != 1 for step in route.route):
        raise _no("it does not scale what enters a layer")
    rest, ends = inputs[route.rest], {inputs[route.route[0].input], inputs[route.route[-1].input]}
    if ends != {rest}:
        raise _no(f"it takes embeddings and head from the models of the first and the last layer, not from {rest!r}")
    own, routed = models[rest].config, merged_config(genome, models, base)
    for key, value in own.items():
        if is_per_layer(key, value, layer_count(rest, models)) and routed[key] != value:
            raise _no(f"it does not rewrite the list {key} of config.json")
    runs: list[tuple[str, list[int]]] = []
    for step in route.route:
        if runs and runs[-1][0] == inputs[step.input] and runs[-1][1][1] == step.layer:
            runs[-1][1][1] += 1
        else:
            runs.append((inputs[step.input], [step.layer, step.layer + 1]))
    return _passthrough(runs, words)


def _passthrough(runs: list[tuple[str, list[int]]], words: Mapping[str, str]) -> dict[str, Any]:
    slices = [{"sources": [_source(words[name], *layers)]} for name, layers in runs]
    return {"merge_method": "passthrough", "slices": slices}


def _source(word: str, first: int, last: int) -> dict[str, Any]:
    if word.endswith(".gguf"):
        raise _no("it reads no GGUF files")
    return {"model": word, "layer_range": [first, last]}


def _model(node: Node) -> str:
    if not isinstance(node, str):
        raise _no("it has one operator over models, and this recipe has several")
    return node


def _within(density: float, epsilon: float) -> bool:
    return density in (0, 1) or (density - epsilon > 0 and density + epsilon < 1)


def _flat(value: Any) -> list[float]:
    return [number for inner in value for number in _flat(inner)] if isinstance(value, list) else [float(value)]


def _no(reason: str) -> ConfigError:
    return ConfigError(f"mergekit cannot express this recipe: {reason}; merge with `evolora merge make`")
