"""Which models are hosts: one decoder with plain attention, all its matrices linear layers or embeddings, so that
adapters can change it, answers of a batch go on from keys and values, and FLOPs are those that we count.
"""

from inspect import signature
from pathlib import Path
from typing import Any

from evolora_core.errors import HostError


def check_layers(folder: Path, model: Any) -> None:
    """Raise HostError unless the model has linear layers, which adapters change, whose tokens see no later ones, and
    remembers keys and values alone, from which answers of a batch go on.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    from evolora_core.language.hosts.layers import adapted_layers

    kind, mend = type(model).__name__, "name a decoder model such as llama, qwen3 or gemma3_text"
    if not adapted_layers(model):
        convolved = any(type(module).__name__ == "Conv1D" for module in model.modules())
        reason = "is made of Conv1D layers, not Linear ones" if convolved else "has no linear layers to adapt"
        raise HostError(f"host {folder}: config.json: {kind} {reason}; {mend}")
    if altered := sorted({type(own).__name__ for own in adapted_layers(model).values() if not _multiplies(own)}):
        raise HostError(
            f"host {folder}: config.json: linear layers of {kind} ({', '.join(altered)}) do more than multiply, as "
            "quantised ones do; save the model dequantised, without quantization_config"
        )
    # Any config takes the key; only a model whose class has it heeds it, but for GPT-NeoX, which is causal anyway.
    heeded = hasattr(type(model.config), "is_decoder") and not model.config.model_type.startswith("gpt_neox")
    if heeded and model.config.is_decoder is False:
        raise HostError(
            f"host {folder}: config.json: is_decoder is false, so that each token of {kind} sees the later ones; {mend}"
        )
    kept = {type(layer) for layer in DynamicCache(config=model.config).layers}
    strange = sorted(layer.__name__ for layer in kept - {DynamicLayer, DynamicSlidingWindowLayer})
    if strange or "past_key_values" not in signature(model.forward).parameters:
        told = f" ({', '.join(strange)})" if strange else ""
        raise HostError(f"host {folder}: config.json: {kind} has layers that are not plain attention{told}; {mend}")


def _multiplies(layer: Any) -> bool:
    """Whether a layer computes x Wᵀ + b, which is what is computed in its place beside adapters."""
    import torch
    from torch import nn
    from torch.nn import functional

    if type(layer) is nn.Linear:
        return True
    weight = layer.weight
    if not weight.is_floating_point() or weight.shape != (layer.out_features, layer.in_features):
        return False
    probe = torch.linspace(-1, 1, layer.in_features, dtype=weight.dtype, device=weight.device)[None]
    with torch.no_grad():
        return torch.allclose(layer(probe), functional.linear(probe, weight, layer.bias), rtol=1e-3, atol=1e-5)


# Attention twice a layer; one that reads all values again at each step; a layer before the head at the last token.
MISCOUNTED = ("diffllama", "doge", "modernbert-decoder")


def check_counted(name: str, model: Any) -> None:
    """HostError for a model that reads more than text, for one that keeps keys and values compressed, for one whose
    layers have different shapes, as Gemma 4's, and for one with matrices that no linear layer holds, such as experts or
    convolutions: budgets and prices would be wrong.
    """
    from torch import nn

    kind = type(model).__name__
    if model.config.get_text_config() is not model.config:
        raise HostError(f"host {name!r}: {kind} reads more than text; save its language model alone")
    if model.config.model_type in MISCOUNTED:
        raise HostError(f"host {name!r}: {kind} computes more or less than is counted of it; name another")
    if getattr(model.config, "kv_lora_rank", None):
        raise HostError(f"host {name!r}: {kind} keeps keys and values compressed, which is not supported; name another")
    if getattr(model.config, "per_layer_attributes", None):
        raise HostError(f"host {name!r}: {kind} has layers of different shapes, which is not supported; name another")
    for path, module in model.named_modules():
        # Cohere's norms have a row of weights for each head, and multiply no matrices.
        if isinstance(module, nn.Linear | nn.Embedding) or "Norm" in type(module).__name__:
            continue
        for own, parameter in module.named_parameters(recurse=False):
            if parameter.ndim > 1:
                raise HostError(
                    f"host {name!r}: {path}.{own} of {kind} is no linear layer, so that its FLOPs would not be "
                    "counted; name a model of linear layers and embeddings alone"
                )
