"""What models must have in common so that their weights mean the same: settings, and tensors of the same sizes."""

import math
from collections.abc import Mapping
from typing import Any

# Settings that say what is computed with a layer's weights. They must agree, at every depth. Which layers have a window
# is in `layer_types`, which transformers makes of `max_window_layers` and is compared layer by layer.
SETTINGS = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "rms_norm_eps",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "attention_bias",
    "mlp_bias",
    "use_parallel_residual",
    "clip_qkv",
    "use_sliding_window",
    "sliding_window",
    "num_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "query_pre_attn_scalar",
    "attention_multiplier",
    "embedding_multiplier",
    "residual_multiplier",
    "logits_scaling",
    "attn_logit_softcapping",
    "final_logit_softcapping",
)

Sizes = Mapping[str, tuple[int, ...]]


CLOSE = 1e-6  # relative. A GGUF file has its settings in float32, where 1e-6 is 9.999999974752427e-07


def disagreement(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first setting in which two configurations differ; nothing where they agree."""
    return next((key for key in SETTINGS if not same(one.get(key), other.get(key))), "")


def same(one: Any, other: Any) -> bool:
    """Whether two values of a setting are the same, up to the rounding of a float."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE)
    return bool(one == other)


def first_difference(one: Sizes, other: Sizes) -> str:
    """The first tensor that two models do not both have, or not in one size; nothing where there is none."""
    if one == other:
        return ""
    return next(name for name in [*one, *other] if one.get(name) != other.get(name))


def sized(shape: tuple[int, ...] | None) -> str:
    """A tensor's sizes for a message."""
    return "missing" if shape is None else str(list(shape))
