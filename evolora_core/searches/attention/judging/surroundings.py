"""What a program shares with the model around it and must leave as it was: torch's own functions and the host's."""

import sys
from typing import Any

import torch
from torch import nn

from evolora_core.searches.attention.host import model, training
from evolora_core.searches.attention.programs.rejection import Rejected

_SHARED: dict[str, Any] = {
    "torch": torch,
    "torch.nn": nn,
    "torch.nn.functional": nn.functional,
    "torch.nn.init": nn.init,
    "torch.Tensor": torch.Tensor,
    **{f"torch.optim.{kind.__name__}": kind for kind in torch.optim.AdamW.__mro__[:-1]},
    "torch.nn.modules.module": nn.modules.module,
    **{
        f"torch.nn.{kind.__name__}": kind
        for kind in (
            nn.Module,
            nn.ModuleList,
            nn.Sequential,
            nn.Linear,
            nn.LayerNorm,
            nn.Embedding,
            nn.GELU,
        )
    },
    "the host's Decoder": model.Decoder,
    "the host's Block": model.Block,
    "the host's model": model,
    "the host's training": training,
}
# What all modules and optimizers call beside their own functions.
_HOOKS = [
    held
    for kind in (nn.Module, torch.optim.Optimizer)
    for name, held in vars(sys.modules[kind.__module__]).items()
    if name.startswith("_global_") and isinstance(held, dict)
]


def surroundings() -> dict[str, int]:
    """Which object stands behind each shared name, torch's settings, and how many hooks and modes it has."""
    found = {f"{name}.{own}": id(value) for name, owner in _SHARED.items() for own, value in list(vars(owner).items())}
    settings = (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        torch.is_anomaly_enabled(),
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        *map(len, _HOOKS),
    )
    return found | {f"setting {number}": hash(value) for number, value in enumerate(settings)}


def check_untouched(before: dict[str, int], stage: str) -> None:
    """Rejected if a shared name stands for something else than before. Names that torch has added since are fine."""
    after = surroundings()
    for name, value in before.items():
        if after.get(name) != value and not name.startswith("setting"):
            raise Rejected(stage, f"it changes {name}, which is not the program's", "outside of the program")
        if after.get(name) != value:
            raise Rejected(stage, "it changes torch's settings", "outside of the program")
