"""Attention of half-precision models on a CPU, where gradients are wanted: in float32, while rows are short.

PyTorch's fused attention goes back through many small half-precision products there, each with the cost of a call: with
58 tokens a row it takes three times as long as in float32, with 256 as long (docs/performance.md). float32 is the more
exact, too. Elsewhere nothing is changed.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "evolora_wide"  # as transformers calls this attention
SHORT = 256  # tokens of a row up to which float32 is faster


def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """`scaled_dot_product_attention` of query, key and value `[rows, heads, tokens, d]`, in their dtype."""
    wide = _dtype(query)
    found = functional.scaled_dot_product_attention(query.to(wide), key.to(wide), value.to(wide), **options)
    return found.to(query.dtype)


def quicken_attention(model: PreTrainedModel) -> None:
    """Let a model of transformers that attends by `scaled_dot_product_attention` do so this way from now on."""
    if model.config._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, _forward)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def _dtype(query: Tensor) -> torch.dtype:
    """In which attention is fastest."""
    half = query.dtype in (torch.bfloat16, torch.float16)
    slow = half and query.device.type == "cpu" and query.shape[2] <= SHORT
    return torch.float32 if slow and query.requires_grad and torch.is_grad_enabled() else query.dtype


def _forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """transformers' `sdpa` attention, computed in the dtype that `_dtype` gives."""
    wide = _dtype(query)
    if attention_mask is not None and attention_mask.is_floating_point():
        attention_mask = attention_mask.to(wide)
    found, _ = sdpa_attention_forward(module, query.to(wide), key.to(wide), value.to(wide), attention_mask, **options)
    return found.to(query.dtype), None
