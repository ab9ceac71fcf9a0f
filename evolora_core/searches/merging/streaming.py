"""Writes a safetensors file header first and then tensor by tensor, so that one tensor at a time is in memory.

The format: 8 bytes with the header's length, the header in JSON, the tensors' bytes one after the other. The bytes are
those that `safetensors.torch.save_file` writes for tensors of one dtype.
"""

import json
import os
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}  # torch's names and the format's
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def header(shapes: Mapping[str, tuple[int, ...]], dtype: str) -> bytes:
    """Everything that stands before the tensors, which follow in order of their names."""
    told: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(shapes):
        start, end = end, end + prod(shapes[name]) * BYTES[dtype]
        told[name] = {"dtype": DTYPES[dtype], "shape": list(shapes[name]), "data_offsets": [start, end]}
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def size_of(shapes: Mapping[str, tuple[int, ...]], dtype: str) -> int:
    """Bytes of the file."""
    return len(header(shapes, dtype)) + sum(map(prod, shapes.values())) * BYTES[dtype]


def write_tensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], tensor: Callable[[str], Tensor], dtype: str
) -> None:
    """Write a file; `tensor` is asked for each in order of the names. The file gets its name when it is whole."""
    kind: torch.dtype = getattr(torch, dtype)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(header(shapes, dtype))
        for name in sorted(shapes):
            own = tensor(name).to(kind).contiguous()
            if tuple(own.shape) != tuple(shapes[name]):
                raise ValueError(f"{name}: made {list(own.shape)}, announced {list(shapes[name])}")
            file.write(own.reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]  # an array is a buffer
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
