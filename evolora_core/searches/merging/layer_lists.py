"""What a configuration says of single layers, rewritten for a route."""

from collections.abc import Mapping, Sequence
from typing import Any

from evolora_core.searches.merging.agreement import same
from evolora_core.searches.merging.misfits import Misfit
from evolora_core.searches.merging.weights import LAYER_COUNTS

# A list as long as the model is deep has an entry for each layer, save these, which are as long by chance.
OTHER_LISTS = ("architectures", "eos_token_id", "bos_token_id", "pad_token_id", "suppress_tokens")
INDEX_LISTS = ("mlp_only_layers", "full_attn_idxs", "attn_layer_indices", "cross_attention_layers")  # numbers of layers
# Layers that know their neighbours or their number: a layer elsewhere is another layer.
BOUND = ("num_kv_shared_layers", "scale_attn_by_inverse_layer_idx", "attn_layer_period", "expert_layer_period")
# Model types whose layers compute with their own number, whatever their configuration says.
NUMBERED = ("beam", "diffllama", "inkling2_text")

Source = tuple[Mapping[str, Any], int]  # the configuration that a layer comes from, and the layer


def depth_of(config: Mapping[str, Any]) -> int:
    """How many layers a configuration asks for."""
    for key in LAYER_COUNTS:
        if isinstance(config.get(key), int):
            return int(config[key])
    raise Misfit("config.json: num_hidden_layers is missing; name a decoder-only language model")


def is_per_layer(key: str, value: Any, depth: int) -> bool:
    """Whether a setting is a list with an entry for each layer."""
    return isinstance(value, list) and len(value) == depth and key not in OTHER_LISTS + INDEX_LISTS


def unlike_layer(one: Mapping[str, Any], other: Mapping[str, Any], depth: int) -> tuple[str, Any, Any] | None:
    """The first setting in which two models of one depth differ in a layer, with the layer's number as in
    `layer_types.3`, and its two values; None where their layers are of the same kinds."""
    for key in [*one, *other]:
        ours, theirs = one.get(key), other.get(key)
        if key in INDEX_LISTS:
            ours, theirs = ours or [], theirs or []
        elif not (is_per_layer(key, ours, depth) or is_per_layer(key, theirs, depth)):
            continue
        if same(ours, theirs):
            continue
        if not (isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs) == depth):
            return key, ours, theirs
        place = next(place for place in range(depth) if not same(ours[place], theirs[place]))
        return f"{key}.{place}", ours[place], theirs[place]
    return None


def routed_config(rest: Mapping[str, Any], sources: Sequence[Source]) -> dict[str, Any]:
    """The configuration `rest` with these layers in place of its own. Misfit where it cannot say what they are."""
    if [layer for _, layer in sources] == list(range(depth_of(rest))) and all(own is rest for own, _ in sources):
        return dict(rest)
    for key in BOUND:
        if rest.get(key):
            raise Misfit(f"config.json: {key}: layers of {rest.get('model_type')} cannot change places; keep them all")
    kind = rest.get("model_type")
    if kind in NUMBERED and [layer for _, layer in sources] != list(range(len(sources))):
        raise Misfit(
            f"route: layers of {kind} compute with their own number and cannot change places; keep their order"
        )
    depth, result = depth_of(rest), dict(rest)
    for key, value in rest.items():
        if is_per_layer(key, value, depth):
            result[key] = [_entry(own, key, layer) for own, layer in sources]
        elif key in INDEX_LISTS and isinstance(value, list):
            result[key] = [place for place, (own, layer) in enumerate(sources) if layer in (own.get(key) or [])]
        elif key in LAYER_COUNTS and isinstance(value, int):
            result[key] = len(sources)
    _sparse(result, sources)
    _leading(result, sources, "max_window_layers", bool(rest.get("use_sliding_window")) and "layer_types" not in rest)
    _leading(result, sources, "first_k_dense_replace", True)
    return result


def _entry(config: Mapping[str, Any], key: str, layer: int) -> Any:
    value = config.get(key)
    if not isinstance(value, list) or layer >= len(value):
        raise Misfit(f"config.json: {key} of an input has no entry for layer {layer}; save that model anew")
    return value[layer]


def _sparse(result: dict[str, Any], sources: Sequence[Source]) -> None:
    """Every so many layers one has experts: said by number, so that the rest are named one by one."""
    if result.get("decoder_sparse_step", 1) != 1:
        result["mlp_only_layers"] = [
            place
            for place, (own, layer) in enumerate(sources)
            if layer in (own.get("mlp_only_layers") or []) or (layer + 1) % int(own["decoder_sparse_step"])
        ]
        result["decoder_sparse_step"] = 1


def _leading(result: dict[str, Any], sources: Sequence[Source], key: str, counts: bool) -> None:
    """A setting that tells the first so many layers from the others. `counts`: nothing else tells them apart."""
    if not isinstance(result.get(key), int):
        return
    before = [layer < (own.get(key) or 0) for own, layer in sources]
    first = before.index(False) if False in before else len(before)
    if counts and any(before[first:]):
        raise Misfit(f"config.json: {key}: on this route such layers are not the first ones; keep their order")
    result[key] = max(result[key], first) if all(before) else first
