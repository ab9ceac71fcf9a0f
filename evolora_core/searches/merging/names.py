"""The kinds of conditions of a merge search: what a suite file may name. Nothing computed depends on this table.

`parent-NAME` is a kind of its own for each parent.
"""

from dataclasses import dataclass

PARENT = "parent-"


@dataclass(frozen=True)
class Kind:
    """A kind of condition.

    module  what makes it, a module with the function `choose` (controls) or `make` (strategies)
    space   space of recipes that it searches unless an arm names another; "": it searches none
    """

    name: str
    module: str
    space: str = ""


_CONTROLS = "evolora_core.searches.merging.controls"
_STRATEGIES = "evolora_core.searches.merging.strategies"
CONTROLS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("base", f"{_CONTROLS}.given"),
        Kind("parent", f"{_CONTROLS}.given"),
        Kind("best-parent", f"{_CONTROLS}.best_parent"),
        Kind("uniform", f"{_CONTROLS}.uniform"),
        Kind("greedy-soup", f"{_CONTROLS}.soup"),
        Kind("lambda-grid", f"{_CONTROLS}.grid"),
        Kind("model-stock", f"{_CONTROLS}.stock"),
        Kind("ensemble", f"{_CONTROLS}.ensemble"),
        Kind("adam", f"{_CONTROLS}.adam", "smooth"),
        Kind("fine-tuned-mean", f"{_CONTROLS}.fine_tuned_mean"),
        Kind("multitask", f"{_CONTROLS}.multitask"),
    )
}
STRATEGIES: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("random", f"{_STRATEGIES}.random", "operators"),
        Kind("hill-climbing", f"{_STRATEGIES}.hill_climbing", "operators"),
        Kind("evomerge-as-published", f"{_STRATEGIES}.evomerge_published", "operators"),
        Kind("evomerge", f"{_STRATEGIES}.evomerge", "operators"),
        Kind("cma", f"{_STRATEGIES}.cma_es", "smooth"),
        Kind("cycleqd", f"{_STRATEGIES}.cycleqd", "smooth"),
        Kind("niches", f"{_STRATEGIES}.niches", "operators"),
    )
}


def kind_of(name: str) -> Kind | None:
    """The kind that a condition is of by its name alone; None if there is no such kind."""
    if name.startswith(PARENT):
        return CONTROLS["parent"]
    known = {**CONTROLS, **STRATEGIES}
    return known.get(name) if name != "parent" else None
