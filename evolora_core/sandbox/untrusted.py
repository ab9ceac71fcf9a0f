"""Reading what a child left. It may have written anything, under any name; nothing of it is executed.

A child can make plain files alone, so that no name leads out of its folder; that is checked here once more, for folders
that an unconfined program wrote in.
"""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np


class Unreadable(Exception):
    """A file that is missing, no plain file, too large or not what it should be; the message is one line."""


def read_bytes(path: Path, largest: int) -> bytes:
    """A plain file of at most `largest` bytes."""
    try:
        place = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"{path.name}: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise Unreadable(f"{path.name} is no plain file")
        with os.fdopen(place, "rb", closefd=False) as file:
            content = file.read(largest + 1)
    finally:
        os.close(place)
    if len(content) > largest:
        raise Unreadable(f"{path.name} has more than {largest} bytes")
    return content


def _finite(digits: str) -> float:
    """A number with a point or an exponent, or a constant that JSON does not have (NaN, Infinity)."""
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"{digits[:40]} is no finite number")
    return value


def read_json(path: Path, largest: int) -> dict[str, Any]:
    """An object in JSON. Its values are whatever the child chose; NaN and infinity are refused."""
    try:
        content = json.loads(read_bytes(path, largest), parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path.name} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise Unreadable(f"{path.name} holds no object")
    return content


def read_array(path: Path, name: str, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
    """The array `name` of a safetensors file, which has to have this shape and be float32. Its numbers may not be
    finite.
    """
    import safetensors
    from safetensors.numpy import load

    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(np.float32).itemsize
    content = read_bytes(path, size + (1 << 20))  # its header, and nothing else
    try:
        found = load(content).get(name)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError) as error:
        raise Unreadable(f"{path.name} holds no tensors: {error}") from None
    if found is None:
        raise Unreadable(f"{path.name} has no tensor {name!r}")
    if found.shape != shape or found.dtype != np.float32:
        raise Unreadable(f"{path.name}: {name!r} is {found.dtype} {list(found.shape)}, not float32 {list(shape)}")
    return found
