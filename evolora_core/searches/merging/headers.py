"""Tensors of a folder's safetensors as their headers tell them, and single rows of them. Torch is not imported."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolora_core.errors import HostError
from evolora_core.foreign.text import one_line

KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # of weights: the format's names and numpy's

BLOCK = 2**20  # numbers that are compared at once


@dataclass(frozen=True)
class Stored:
    """A tensor in a file.

    name    in that file
    kind    of its numbers, as the format calls it
    start   where in the file it begins, in bytes
    """

    file: Path
    name: str
    kind: str
    shape: tuple[int, ...]
    start: int

    def read(self) -> NDArray[Any]:
        """All of the tensor in memory of its own, as the file has it; bfloat16 as its 16 bits."""
        return np.fromfile(self.file, KINDS[self.kind], prod(self.shape), offset=self.start).reshape(self.shape)

    def rows(self, step: int) -> NDArray[np.float32]:
        """Every so many rows of the tensor; nothing else of it is read from the file. A number alone is one row."""
        shape = self.shape or (1,)
        if step == 1 or not prod(shape):
            found = self.read().reshape(shape)[::step]
        else:
            width = prod(shape[1:]) * np.dtype(KINDS[self.kind]).itemsize
            with self.file.open("rb", buffering=0) as file:
                parts = [os.pread(file.fileno(), width, self.start + row * width) for row in range(0, shape[0], step)]
            found = np.frombuffer(b"".join(parts), KINDS[self.kind]).reshape(-1, *shape[1:])
        return _float32(found, self.kind)

    def equals(self, other: "Stored") -> bool:
        """Whether another tensor has the same numbers. The files are read block by block, up to the first
        difference."""
        if self.shape != other.shape:
            return False
        size = prod(self.shape)
        parts = [np.memmap(own.file, KINDS[own.kind], "r", own.start, (size,)) for own in (self, other) if size]
        for start in range(0, size, BLOCK):
            one, two = (part[start : start + BLOCK] for part in parts)
            if not np.array_equal(_float32(one, self.kind), _float32(two, other.kind)):
                return False
        return True


def _float32(found: NDArray[Any], kind: str) -> NDArray[np.float32]:
    if kind == "BF16":  # the first half of a float32
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float32)


def read_headers(folder: Path, files: Sequence[Path]) -> dict[str, Stored]:
    """The tensors of a folder's files by name. HostError, one line, for a file that is not whole."""
    found: dict[str, Stored] = {}
    for path in files:
        shapes = _checked(folder, path)
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            told: Mapping[str, Any] = json.loads(file.read(length))
        for name, shape in shapes.items():
            found[name] = Stored(path, name, told[name]["dtype"], shape, 8 + length + told[name]["data_offsets"][0])
    return found


def _checked(folder: Path, path: Path) -> dict[str, tuple[int, ...]]:
    """Names and sizes of a file's tensors. The format's own reader has found its header to be true."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  # no mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise HostError(f"host {folder}: {path.name}: {one_line(error, 160)}; save the weights anew") from error
