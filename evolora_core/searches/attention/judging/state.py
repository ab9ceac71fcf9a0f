"""What a module remembers, its file included: looked at before and after a call."""

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from evolora_core.searches.attention.judging.loading import PROGRAM
from evolora_core.searches.attention.programs.rejection import Rejected

PARAMETER = "parameter "  # begins the names of parameters
_DEEPEST = 6  # levels of lists, tuples and mappings that are followed
_OWN = {"_parameters", "_buffers", "_modules", "training"}


def snapshot(module: nn.Module, learned: bool = False) -> dict[str, Any]:
    """Everything by name, frozen: parameters, unless it has `learned` meanwhile, buffers, plain attributes, attributes
    of classes, names of the file.
    """
    held = remembered(module)
    return {path: _frozen(value, 0) for path, value in held if not (learned and path.startswith(PARAMETER))}


def remembered(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Each value that outlives a call, by name. What was set on a tensor is no part of its numbers, and what stands in
    torch's own dictionaries of a module, such as those of hooks, may be a program's.
    """
    for word, tensors in ((PARAMETER, module.named_parameters()), ("buffer ", module.named_buffers())):
        for name, value in tensors:
            yield word + name, value
            yield f"attributes of {name}", dict(vars(value))
    seen: set[int] = set()
    for path, part in module.named_modules():
        at = f"{path}." if path else ""
        kind = type(part)
        for name, value in vars(part).items():
            if name not in _OWN:
                yield f"attribute {at}{name}", value
        names = _file_of(kind)
        if names is None or id(names) in seen:
            continue
        seen.add(id(names))
        for name, value in names.items():
            if isinstance(value, type) and value.__module__ == kind.__module__:
                yield from ((f"{name}.{own}", held) for own, held in vars(value).items() if not own.startswith("__"))
            elif not isinstance(value, ModuleType | type) and not name.startswith("__"):
                yield f"name {name}", value


def check_unchanged(before: dict[str, Any], module: nn.Module, stage: str, place: str, learned: bool = False) -> None:
    """Rejected where calls have changed anything that is remembered: beside parameters, if it has `learned`."""
    after = snapshot(module, learned)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name, _Missing) != after.get(name, _Missing):
            raise Rejected(stage, f"forward changes the {name}; nothing may be kept from call to call", place)


class _Missing:
    """Stands for a name that is not there."""


def _file_of(kind: type) -> dict[str, Any] | None:
    """The names of the file in which a class was written, if it was a program's."""
    for value in vars(kind).values():
        if isinstance(value, FunctionType) and value.__globals__.get("__name__") == PROGRAM:
            return value.__globals__
    return None


def _frozen(value: Any, depth: int) -> Any:
    """Something that compares equal as long as the value is unchanged."""
    if isinstance(value, torch.Tensor):
        held = value.detach()
        return ("tensor", str(held.dtype), tuple(held.shape), held.cpu().contiguous().flatten().tolist())
    if depth > _DEEPEST:
        return "deep"
    if isinstance(value, dict):
        return ("dict", [(repr(name), _frozen(held, depth + 1)) for name, held in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [_frozen(held, depth + 1) for held in value])
    if isinstance(value, set | frozenset):
        return ("set", sorted(map(repr, value)))
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return ("function", _frozen([value.__defaults__, value.__kwdefaults__, vars(value), cells], depth + 1))
    if isinstance(value, int | float | complex | str | bytes | bool | None):
        return repr(value)
    if isinstance(value, nn.Module):
        return "module"  # its parts are looked at by themselves
    return ("object", type(value).__name__, _frozen(getattr(value, "__dict__", {}), depth + 1))
