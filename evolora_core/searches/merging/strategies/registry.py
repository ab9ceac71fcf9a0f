"""Strategies by name. A strategy's module is imported when it is first asked for, and no other is."""

from importlib import import_module

from evolora_core.foreign.nearest import nearest_or_all
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.strategies.base import Problem, Strategy


def make_strategy(name: str, problem: Problem) -> Strategy:
    """The strategy of that name on a problem. ValueError: there is none."""
    if name not in STRATEGIES:
        raise ValueError(f"strategy {name[:60]!r} is unknown; {nearest_or_all(name, STRATEGIES)}")
    strategy: Strategy = import_module(STRATEGIES[name].module).make(problem)
    return strategy
