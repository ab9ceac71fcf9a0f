"""How fast the merge operators are beside mergekit's, with the same recipe on the same models, in one run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from evolora_core.searches.merging.operators.registry import get_operator
from flows.bench.timing import Row, row, side_by_side

State = dict[str, Tensor]
SPREAD = 0.02  # standard deviation of the base's weights
STEP = 0.002  # and of what a model adds to them
RECIPES: Mapping[str, Mapping[str, float]] = {  # operators and their parameters, the same for every model
    "linear": {"weight": 1.0},
    "task_arithmetic": {"weight": 0.25},
    "ties": {"weight": 1.0, "density": 0.5},
    "dare_ties": {"weight": 1.0, "density": 0.5},
    "model_stock": {},
}


def shapes(hidden: int, layers: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Tensors of a Llama with tied embeddings and the proportions of SmolLM2-135M, by name."""
    wide, narrow = _mlp(hidden), hidden // _heads(hidden)  # narrow: grouped keys and values
    layer = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (narrow, hidden),
        "self_attn.v_proj": (narrow, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (wide, hidden),
        "mlp.up_proj": (wide, hidden),
        "mlp.down_proj": (hidden, wide),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, hidden),
        "model.norm.weight": (hidden,),
    }
    for index in range(layers):
        found |= {f"model.layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    return found


def config(hidden: int, layers: int, vocabulary: int) -> dict[str, Any]:
    """The settings of such a model, as config.json has them."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": _mlp(hidden),
        "num_hidden_layers": layers,
        "num_attention_heads": _heads(hidden),
        "num_key_value_heads": 1,
        "vocab_size": vocabulary,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }


def _mlp(hidden: int) -> int:
    return hidden * 8 // 3


def _heads(hidden: int) -> int:
    """Heads of attention for one of keys and values: three where the width allows it."""
    return 1 if hidden % 3 else 3


def draw(hidden: int, layers: int, vocabulary: int, models: int) -> tuple[State, list[State]]:
    """A base of random weights and models that were moved from it at random, float32."""
    stream = torch.Generator().manual_seed(0)
    sizes = shapes(hidden, layers, vocabulary)
    base = {name: SPREAD * torch.randn(shape, generator=stream) for name, shape in sizes.items()}
    return base, [
        {name: start + STEP * torch.randn(start.shape, generator=stream) for name, start in base.items()}
        for _ in range(models)
    ]


def ours(operator: str, base: State, models: Sequence[State]) -> State:
    """The merged model by our operators; masks as mergekit scales them, so that both do the same work."""
    kind = get_operator(operator)
    values = kind.resolve(RECIPES[operator], len(models), float)
    options = kind.choices({"rescale": "l1"} if "rescale" in kind.options else {})
    streams = [torch.Generator().manual_seed(index) for index in range(len(models))]
    return {
        name: kind.apply(
            [model[name] for model in models], start if kind.base else None, values, options, streams.__getitem__
        )
        for name, start in base.items()
    }


def mergekits(operator: str, base: State, models: Sequence[State]) -> State:
    """The merged model by mergekit."""
    from mergekit.merge_methods import merge_state_dicts

    based = get_operator(operator).base
    states = dict(enumerate([base, *models] if based else models))
    merged: State = merge_state_dicts(states, operator, parameters=RECIPES[operator], base=0 if based else None)
    return merged


def measure(
    hidden: int, layers: int, vocabulary: int, models: int, repeats: int, threads: int, only: Sequence[str]
) -> list[Row]:
    """Weights merged per second by each operator, in memory; `threads` 0 leaves torch's own number."""
    if threads:
        torch.set_num_threads(threads)
    base, moved = draw(hidden, layers, vocabulary, models)
    weights = sum(tensor.numel() for tensor in base.values())
    note = (
        f"{models} models of {weights / 1e6:.1f} M weights and a base, float32 in memory, CPU, "
        f"{torch.get_num_threads()} threads; median of {repeats}; other: mergekit"
    )
    rows: list[Row] = []
    for operator in only or RECIPES:
        ways: dict[str, Callable[[], object]] = {
            "ours": partial(ours, operator, base, moved),
            "mergekit": partial(mergekits, operator, base, moved),
        }
        seconds = side_by_side(ways, repeats, operator)
        rows.append(
            row(operator, weights / seconds["ours"] / 1e6, weights / seconds["mergekit"] / 1e6, "M weights/s", note)
        )
    return rows
