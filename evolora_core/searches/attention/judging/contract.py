"""What a program's classes may hold: stage `build`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from evolora_core.searches.attention.host.sizes import Size
from evolora_core.searches.attention.judging.loading import PROGRAM, failed
from evolora_core.searches.attention.judging.state import remembered
from evolora_core.searches.attention.programs.rejection import Rejected


def construct(program: Callable[[int, int], nn.Module], size: Size, seed: int) -> nn.Module:
    """A module of a size, drawn from a seed, in evaluation mode. Rejected (stage `build`) where it cannot be made."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            made = program(size.dim, size.heads)
        except Exception as error:
            raise failed("build", error, _of(size)) from error
    return made.eval()


def check_build(program: Callable[[int, int], nn.Module], sizes: Sequence[Size], context: int) -> None:
    """Rejected unless it can be built at every size, the same way each time, with all that learns as its parameters."""
    for size in sizes:
        module = construct(program, size, seed=0)
        own = {id(parameter) for parameter in module.parameters()}
        for path, tensor in _tensors(module):
            if id(tensor) not in own and tensor.requires_grad:
                raise Rejected("build", f"the {path} learns but is no parameter of the module", _of(size))
        for name, parameter in module.named_parameters():
            if parameter.dtype != torch.float32 or not torch.isfinite(parameter).all():
                raise Rejected("build", f"the parameter {name} is no finite float32", _of(size))
        kept = sum(tensor.numel() for _, tensor in _tensors(module) if id(tensor) not in own)
        if kept > (most := context**2 * size.heads):
            raise Rejected("build", f"it holds {kept} numbers that are no parameters; {most} are allowed", _of(size))
    first, second = (construct(program, sizes[0], seed=1) for _ in range(2))
    others = dict(second.named_parameters()) | dict(second.named_buffers())
    for name, tensor in (dict(first.named_parameters()) | dict(first.named_buffers())).items():
        if name not in others or not torch.equal(tensor, others[name]):
            raise Rejected("build", f"two modules from one seed differ in {name}", _of(sizes[0]))


def _tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor that a module or its file holds, once."""
    seen: set[int] = set()
    for path, value in remembered(module):
        for tensor in _within(value, 0):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield path, tensor


def _within(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
        yield from value.buffers()
    elif isinstance(value, dict | list | tuple) and depth < 6:
        for held in value.values() if isinstance(value, dict) else value:
            yield from _within(held, depth + 1)
    elif type(value).__module__ == PROGRAM and depth < 6:
        yield from _within(getattr(value, "__dict__", {}), depth + 1)


def _of(size: Size) -> str:
    return f"at dim {size.dim}, heads {size.heads}"
