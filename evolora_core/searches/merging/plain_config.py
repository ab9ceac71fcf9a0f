"""Configurations of ordinary models, told without importing transformers, which takes seconds.

The defaults are those that the source of transformers states. Whatever is not as usual is left to transformers itself.
"""

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evolora_core.searches.merging.agreement import SETTINGS, same

Config = Mapping[str, Any]

COMPARED = ("model_type", "tie_word_embeddings", "vocab_size", *SETTINGS)  # in this order

KNOWN_TYPE = re.compile(r"[a-z0-9_]{1,60}")
SIZES = ("vocab_size", "num_hidden_layers", "max_window_layers")  # beside those that are compared
MOVED = ("rope_theta", "rope_scaling", "partial_rotary_factor")  # where older files have what is in rope_parameters
COMPUTED = ("rope_parameters", "sliding_window", "head_dim")  # other values of them may come to mean the same
# Settings that nothing which is compared is computed from.
ELSEWHERE = (
    *("transformers_version", "_name_or_path", "architectures", "dtype", "torch_dtype", "use_cache", "auto_map"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "initializer_range", "attention_dropout", "pretraining_tp"),
    *("_attn_implementation", "attn_implementation", "output_attentions", "output_hidden_states", "return_dict"),
)
BY_DEPTH = ("num_hidden_layers", "layer_types")  # which differ where one model is deeper


@dataclass(frozen=True)
class Stated:
    """A configuration's class in the source of transformers: its name without `Config`, its defaults, and other names
    of its keys."""

    name: str
    defaults: Config
    aliases: frozenset[str]


def plain_config(raw: Config) -> dict[str, Any] | None:
    """What a causal language model's config.json says, defaults filled in; None where transformers has to be asked."""
    stated = _stated(raw["model_type"]) if isinstance(raw.get("model_type"), str) else None
    if stated is None or stated.aliases & raw.keys():
        return None
    found = {**stated.defaults, **raw}
    if found.get("architectures") != [f"{stated.name}ForCausalLM"] or not _well_typed(found, stated.defaults):
        return None
    if found.get("use_sliding_window") is False:
        found["sliding_window"] = None
    return _with_rope(found) if "rope_parameters" in found else found


def settled(one: Config, other: Config) -> bool:
    """Whether it is certain that two plain configurations agree, or certain in which setting they differ first."""
    for key in COMPARED:
        ours, theirs = one.get(key), other.get(key)
        if not same(ours, theirs):
            return _differ(key, ours, theirs)
    differing = {key for key in one.keys() | other.keys() if not same(one.get(key), other.get(key))}
    unscaled = (one.get("rope_parameters") or {}).get("rope_type") == "default"
    deeper = "num_hidden_layers" in differing
    usual = (*ELSEWHERE, *(BY_DEPTH if deeper else ()), *(("max_position_embeddings",) if unscaled else ()))
    return not differing - {*usual}


def _differ(key: str, ours: Any, theirs: Any) -> bool:
    """Whether two unequal values of a setting certainly mean different things."""
    if key == "rope_parameters":  # the same is filled in where the same is said
        return bool(ours.keys() == theirs.keys() and ours["rope_type"] == theirs["rope_type"])
    return key not in (*COMPUTED, *MOVED) and ours is not None and theirs is not None


def _with_rope(config: dict[str, Any]) -> dict[str, Any] | None:
    """The configuration with rotary settings in one place, as newer files have them; None for those of kinds of
    layers."""
    told = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(told, dict) or any(isinstance(value, dict) for value in told.values()):
        return None
    rope = dict(told)
    for key in ("rope_theta", "partial_rotary_factor"):
        if config.get(key) is not None:
            rope.setdefault(key, config[key])
    rope.setdefault("rope_type", told.get("type", "default"))
    kept = {key: value for key, value in config.items() if key not in MOVED}
    return kept | {"rope_parameters": rope}


def _well_typed(config: Config, defaults: Config) -> bool:
    """Whether values used in computation are possible and have the types of the defaults. Else ask transformers."""
    for key in (*COMPARED, *SIZES):
        value, default = config.get(key), defaults.get(key)
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        if default is not None and key not in COMPUTED and type(value) not in kinds:
            return False
    layers, heads, hidden = (config.get(key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    if not (isinstance(layers, int) and isinstance(heads, int) and isinstance(hidden, int)) or heads < 1:
        return False
    kinds_of_layers = config.get("layer_types") or [""] * layers
    return hidden % heads == 0 and isinstance(kinds_of_layers, list) and len(kinds_of_layers) == layers


@cache
def _stated(model_type: str) -> Stated | None:
    """The configuration class of a model type, read from transformers' source; None where it has another form."""
    library = find_spec("transformers")
    if library is None or library.origin is None or not KNOWN_TYPE.fullmatch(model_type):
        return None
    family = model_type.removesuffix("_text")
    path = Path(library.origin).parent / "models" / family / f"configuration_{family}.py"
    if not path.is_file():
        return None
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and [ast.unparse(base) for base in node.bases] == ["PreTrainedConfig"]:
            fields, others = _values(node, ast.AnnAssign), _values(node, ast.Assign)
            if others.get("model_type") == model_type and "tie_word_embeddings" in fields:
                name = node.name.removesuffix("Config").removesuffix("Text")
                return Stated(name, fields, frozenset(others.get("attribute_map") or ()))
    return None


def _values(node: ast.ClassDef, kind: type[ast.Assign] | type[ast.AnnAssign]) -> dict[str, Any]:
    """What the body of a class assigns by statements of a kind, where it is a literal."""
    found: dict[str, Any] = {}
    for line in node.body:
        if isinstance(line, kind) and line.value is not None:
            target = line.targets[0] if isinstance(line, ast.Assign) else line.target
            with suppress(ValueError):
                found[ast.unparse(target)] = ast.literal_eval(line.value)
    return found
