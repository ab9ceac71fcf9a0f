"""A recipe in one line that people read.

ties(0.5/0.7·code, 1·math; density 0.4)     weights before the models, values of layer groups between strokes
layers(code 0–1 → math 1 → math 1 ×0.9)     layers in their order, and by how much what enters one is scaled
"""

import json
from typing import Any

OFFSET = "#"  # how an input of a route is named that is a recipe itself


def readable(genome: str) -> str:
    """The recipe of a genome's canonical JSON; the text itself where it is none."""
    try:
        return _node(json.loads(genome)["recipe"])
    except (ValueError, KeyError, TypeError, IndexError):
        return genome


def _node(node: Any) -> str:
    if isinstance(node, str):
        return node
    inputs = [_node(inner) for inner in node["inputs"]]
    return _route(node, inputs) if "route" in node else _merge(node, inputs)


def _merge(node: dict[str, Any], inputs: list[str]) -> str:
    params = dict(node.get("params", {}))
    weights = params.get("weight")
    if isinstance(weights, list) and len(weights) == len(inputs):
        inputs = [f"{_value(weight)}·{name}" for weight, name in zip(params.pop("weight"), inputs, strict=True)]
    rest = [f"{name} {_values(value)}" for name, value in sorted(params.items())]
    rest += [f"{name} {choice}" for name, choice in sorted(node.get("options", {}).items())]
    return f"{node['op']}({', '.join(inputs)}{'; ' if rest else ''}{', '.join(rest)})"


def _route(node: dict[str, Any], inputs: list[str]) -> str:
    names = [f"{OFFSET}{i}" if "(" in name else name for i, name in enumerate(inputs)]
    parts: list[list[Any]] = []  # input, first layer, last layer, scale
    for own in node["route"]:
        step = own if isinstance(own, dict) else dict(zip(("input", "layer", "scale"), own, strict=False))
        source, layer, scale = step["input"], step["layer"], step.get("scale", 1.0)
        if parts and scale == 1.0 and parts[-1][3] == 1.0 and parts[-1][0] == source and parts[-1][2] + 1 == layer:
            parts[-1][2] = layer
        else:
            parts.append([source, layer, layer, scale])
    words = [
        f"{names[source]} {first}{f'–{last}' if last > first else ''}{f' ×{scale:.3g}' if scale != 1.0 else ''}"
        for source, first, last, scale in parts
    ]
    said = [f"{name} = {own}" for name, own in zip(names, inputs, strict=True) if name != own]
    if len(names) > 1:
        said.append(f"rest {names[node.get('rest', 0)]}")
    return f"layers({' → '.join(words)}{'; ' if said else ''}{', '.join(said)})"


def _values(value: Any) -> str:
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list) else _value(value)


def _value(value: Any) -> str:
    """A number, or those of the layer groups."""
    return "/".join(map(_value, value)) if isinstance(value, list) else f"{value:.3g}"
