"""Positions of rows that are padded on the left."""

import inspect
from typing import Any

import torch


def count_positions(decoder: torch.nn.Module) -> None:
    """Let a decoder that is given no positions count them by the mask: hosts with learned positions count columns, and
    rows that are padded on the left would be read as if they began later.
    """

    def positioned(module: torch.nn.Module, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        mask = named.get("attention_mask")
        if mask is None or mask.ndim != 2 or named.get("position_ids") is not None or named.get("past_key_values"):
            return given, named
        return given, named | {"position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)}

    if "position_ids" in inspect.signature(decoder.forward).parameters:
        decoder.register_forward_pre_hook(positioned, with_kwargs=True)
