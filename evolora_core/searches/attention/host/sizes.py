"""The sizes of the host model, and how many parameters count."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Size:
    """One size: the width, the layers, and the heads of each."""

    name: str
    dim: int
    layers: int
    heads: int


# With softmax attention 6.6 k, 25.5 k, 85 k, 200 k, 448 k and 992 k non-embedding parameters: a factor of 150 in all,
# and of 30 over the first four. A head has 8, 8, 12, 16, 16 and 16 channels. The last four are the first system's.
SIZES: Mapping[str, Size] = MappingProxyType(
    {
        size.name: size
        for size in (
            Size("xs", 16, 2, 2),
            Size("s", 32, 2, 4),
            Size("m", 48, 3, 4),
            Size("l", 64, 4, 4),
            Size("xl", 96, 4, 6),
            Size("xxl", 128, 5, 8),
            Size("first-1", 96, 4, 4),
            Size("first-2", 128, 4, 4),
            Size("first-3", 128, 6, 4),
            Size("first-4", 192, 6, 6),
        )
    }
)


def order(name: str) -> tuple[int, int]:
    """Where a size stands among all: by its layers' weights, whose number goes with layers x width squared. Of two that
    are equal there the first one in SIZES comes first.
    """
    size = SIZES[name]
    return size.layers * size.dim**2, list(SIZES).index(name)


def non_embedding(model: "nn.Module") -> int:
    """The N of a scaling law: parameters of a host model without the embedding, which is also the output matrix."""
    return total(model) - model.get_parameter("embedding.weight").numel()


def total(model: "nn.Module") -> int:
    """All parameters; a shared one counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
