"""Operators by name. Whoever adds one enters its module here."""

import difflib
from functools import cache

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
        near = difflib.get_close_matches(name[:60], known, n=1, cutoff=0.4)
        mend = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}, layers"
        raise ValueError(f"operator {name[:60]!r} is unknown; {mend}")
    return known[name]
