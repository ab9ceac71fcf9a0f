"""What a control is given."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolora_core.engine.progress import Progress
from evolora_core.errors import Unaffordable
from evolora_core.language.families.base import Item
from evolora_core.searches.merging.finalists import Ranked
from evolora_core.searches.merging.judging.judge import Failed, Judge
from evolora_core.searches.merging.recipe import Genome, Merge, Node
from evolora_core.searches.merging.settings import FineTuning, Gradients


@dataclass(frozen=True)
class Task:
    """One control in one run.

    budget       FLOPs that it may spend, all told
    gradients    settings of a control that descends; None: it does not
    specialists  how the specialists were trained, for the control that trains one model on all domains
    train        items of their training, for the same
    folder       where weights of its own go
    """

    judge: Judge
    parents: tuple[str, ...]
    parent: str
    groups: int
    finalists: int
    budget: int
    seed: int
    gradients: Gradients | None
    specialists: FineTuning
    train: list[Item]
    folder: Path
    report: Progress


def afford_parents(task: Task, name: str, beside: int = 0) -> None:
    """Unaffordable unless the budget pays for measuring every parent on the search items, and `beside` (FLOPs)."""
    room = task.budget - task.judge.meter.total() - len(task.parents) * task.judge.plain_cost()
    if room < beside:
        more = ", and the best one on the selection items" if room >= 0 else ""
        raise Unaffordable(f"{name}: the budget does not pay for every parent{more}; raise budget.evaluations")


def scored(judge: Judge, genomes: Iterable[Genome]) -> list[Ranked]:
    """What can be measured of some recipes on the search items, the best first."""
    found: list[Ranked] = []
    for genome in genomes:
        try:
            found.append((genome, judge.measure(genome).score, None))
        except Failed:
            continue
    return sorted(found, key=lambda one: -one[1])


def mean(parents: tuple[str, ...]) -> Genome:
    """The uniform mean."""
    return Genome(recipe=Merge(op="linear", inputs=list[Node](parents)))


def shifted(parents: tuple[str, ...], weights: np.ndarray) -> Genome:
    """Task arithmetic with a weight for each parent and layer group, `[parents, groups]`."""
    return Genome(recipe=Merge(op="task_arithmetic", inputs=list[Node](parents), params={"weight": weights.tolist()}))
