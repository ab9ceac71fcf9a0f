"""The state of a training under way, as a file: one that was killed goes on as if nothing had been.

Batches and rates follow from the step, so that parameters, buffers, AdamW's moments and torch's generator are all that
there is. Tensors go by their place: a program may share one under two names.
"""

import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

SECONDS = "seconds"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of AdamW


def save_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, losses: list[float], seconds: float
) -> None:
    """Write the state after as many steps as there are losses, which took so much processor time. The file is whole or
    the former one.
    """
    tensors = {name: tensor.detach().contiguous() for name, tensor in _held(model).items()}
    for place, parameter in enumerate(_trained(model)):
        for name, moment in optimizer.state[parameter].items():  # none yet of one that had no gradient
            tensors[f"{name} {place}"] = moment
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    tensors[SECONDS] = torch.tensor([seconds], dtype=torch.float64)
    tensors["generator"] = torch.get_rng_state()
    new = path.with_suffix(".new")
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, new)
    os.replace(new, path)


def load_state(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[list[float], float]:
    """Take over what `save_state` left; returns the losses and seconds so far, none where there is no file."""
    if not path.exists():
        return [], 0.0
    tensors = load_file(path)
    with torch.no_grad():
        for name, tensor in _held(model).items():
            tensor.copy_(tensors[name])
    for place, parameter in enumerate(_trained(model)):
        if f"step {place}" in tensors:
            optimizer.state[parameter] = {name: tensors[f"{name} {place}"] for name in _MOMENTS}
    torch.set_rng_state(tensors["generator"])
    return tensors["losses"].tolist(), float(tensors[SECONDS])


def _held(model: nn.Module) -> dict[str, Tensor]:
    """Each parameter and buffer once."""
    parts = {"parameter": model.parameters(), "buffer": model.buffers()}
    return {f"{kind} {place}": _single(own) for kind, all_of in parts.items() for place, own in enumerate(all_of)}


def _single(tensor: Tensor) -> Tensor:
    """View with each stored number once, as an expanded tensor cannot be written to."""
    for side, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor = tensor.narrow(side, 0, min(1, tensor.shape[side]))
    return tensor


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
