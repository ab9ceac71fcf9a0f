"""Whether a module is what its framework says: stage `membership`.

The text outside of the block is the framework's, so this holds by construction as long as nothing has been exchanged
behind its back. What went through the slots is caught here and put together a second time.
"""

from typing import Any

import torch
from torch import nn, tril  # taken when this is loaded, before any program is

from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.judging.forms import call, noise
from evolora_core.searches.attention.programs.rejection import Rejected

STAGE = "membership"


def check_membership(module: nn.Module, framework: Framework, dim: int, heads: int, length: int) -> None:
    """Rejected unless the values that reach the slot `finish` are those that the framework's formula gives."""
    core, seen = framework.slots[1], _watched(module, dim, length)
    rows, mixed = 2, seen["finish"]
    if tuple(mixed.shape) != (form := (rows, heads, length, dim // heads)):
        raise Rejected(STAGE, f"{core} leads to mixed values {list(mixed.shape)} instead of {list(form)}", core)
    if framework.name == "test-time-regression":
        wanted = seen["core"]
    else:
        weights, prepared = seen["core"], seen["prepare"]
        values = prepared[2] if isinstance(prepared, tuple) else prepared
        square: list[tuple[int, ...]] = [(rows, heads, length, length)]
        square += [(heads, length, length), (1, heads, length, length)] if framework.name == "matrix-mixer" else []
        if tuple(weights.shape) not in square:
            raise Rejected(STAGE, f"{core} returns {list(weights.shape)} instead of {list(square[0])}", core)
        wanted = tril(weights) @ values
    if not torch.equal(mixed, wanted):
        raise Rejected(STAGE, f"the mixed values are not what {framework.name} makes of {core}", core)


def _watched(module: nn.Module, dim: int, length: int) -> dict[str, Any]:
    """What the slots `prepare` and `core` return and what `finish` is given, in one call with two rows."""
    seen: dict[str, Any] = {}
    hooks = [
        module.get_submodule(slot).register_forward_hook(lambda _, given, out, slot=slot: seen.update({slot: out}))
        for slot in ("prepare", "core")
    ]
    hooks.append(
        module.get_submodule("finish").register_forward_pre_hook(lambda _, given: seen.update(finish=given[0]))
    )
    try:
        with torch.no_grad():
            call(module, noise(5, 2, length, dim), STAGE)
    finally:
        for hook in hooks:
            hook.remove()
    for slot in ("prepare", "core", "finish"):
        if slot not in seen:
            raise Rejected(STAGE, f"forward never calls its {slot}", slot)
    return seen
