"""Spaces by name. A space's module is imported when it is first asked for, and no other is."""

from collections.abc import Sequence
from importlib import import_module

from evolora_core.foreign.nearest import nearest_or_all
from evolora_core.searches.merging.spaces.base import Space
from evolora_core.searches.merging.spaces.names import NAMES


def make_space(name: str, parents: Sequence[str], layers: int, groups: int, seed: int = 0) -> Space:
    """The space of that name over parents of one base. ValueError: there is none, or it does not fit them.

    layers   layers of each parent
    groups   groups of layers that have values of their own, where the space has values at all; of more than there are
             layers and what lies behind them, some would have values that nothing reads
    seed     of the random masks of its genomes, where it has operators that draw some
    """
    if name not in NAMES:
        raise ValueError(f"space {name[:60]!r} is unknown; {nearest_or_all(name, NAMES)}")
    if len(parents) < 2 or layers < 1 or groups < 1:
        raise ValueError("a space has two parents or more, and at least one layer and one group of layers")
    space: Space = import_module(NAMES[name]).make(tuple(parents), layers, min(groups, layers + 1), seed)
    return space
