"""Strategies by name. A strategy's module is imported when it is first asked for, and no other is."""

import difflib
from importlib import import_module

from evolora_core.searches.merging.strategies.base import Problem, Strategy

_HERE = "evolora_core.searches.merging.strategies"
NAMES: dict[str, str] = {  # name -> module, whose function `make` gives the strategy
    "random": f"{_HERE}.random",
    "hill-climbing": f"{_HERE}.hill_climbing",
    "evomerge-as-published": f"{_HERE}.evomerge_published",
    "evomerge": f"{_HERE}.evomerge",
    "cma": f"{_HERE}.cma_es",
    "cycleqd": f"{_HERE}.cycleqd",
    "niches": f"{_HERE}.niches",
}


def make_strategy(name: str, problem: Problem) -> Strategy:
    """The strategy of that name on a problem. ValueError: there is none."""
    if name not in NAMES:
        near = difflib.get_close_matches(name[:60], NAMES, n=1, cutoff=0.4)
        mend = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(NAMES)}"
        raise ValueError(f"strategy {name[:60]!r} is unknown; {mend}")
    strategy: Strategy = import_module(NAMES[name]).make(problem)
    return strategy
