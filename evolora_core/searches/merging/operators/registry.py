"""Operators by name. Whoever adds one enters its module here."""

from functools import cache

from evolora_core.foreign.nearest import nearest_or_all
from evolora_core.searches.merging.operators.base import Operator


@cache
def operators() -> dict[str, Operator]:
    """Every operator by name."""
    from evolora_core.searches.merging.operators import averages, consensus, sparse

    return {own.name: own for module in (averages, sparse, consensus) for own in module.OPERATORS}


def get_operator(name: str) -> Operator:
    """The operator of that name. ValueError names the nearest one."""
    known = operators()
    if name not in known:
        raise ValueError(f"operator {name[:60]!r} is unknown; {nearest_or_all(name, [*known, 'layers'])}")
    return known[name]
