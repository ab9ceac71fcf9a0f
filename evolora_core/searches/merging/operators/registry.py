"""Operators by name. Whoever adds one enters its module here."""

import difflib
from functools import cache
from importlib import import_module

from evolora_core.searches.merging.operators.base import Operator

MODULES = ("averages", "sparse", "consensus")  # files in this folder, each with OPERATORS


@cache
def operators() -> dict[str, Operator]:
    """Every operator by name."""
    modules = [import_module(f"evolora_core.searches.merging.operators.{name}") for name in MODULES]
    return {operator.name: operator for module in modules for operator in module.OPERATORS}


def get_operator(name: str) -> Operator:
    """The operator of that name. ValueError names the nearest one."""
    known = operators()
    if name not in known:
        near = difflib.get_close_matches(name[:60], known, n=1, cutoff=0.4)
        mend = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}, layers"
        raise ValueError(f"operator {name[:60]!r} is unknown; {mend}")
    return known[name]
