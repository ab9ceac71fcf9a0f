"""Strategies by name. A strategy's module is imported when it is first asked for, and no other is."""

import difflib
from importlib import import_module

from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.strategies.base import Problem, Strategy


def make_strategy(name: str, problem: Problem) -> Strategy:
    """The strategy of that name on a problem. ValueError: there is none."""
    if name not in STRATEGIES:
        near = difflib.get_close_matches(name[:60], STRATEGIES, n=1, cutoff=0.4)
        mend = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(STRATEGIES)}"
        raise ValueError(f"strategy {name[:60]!r} is unknown; {mend}")
    strategy: Strategy = import_module(STRATEGIES[name].module).make(problem)
    return strategy
