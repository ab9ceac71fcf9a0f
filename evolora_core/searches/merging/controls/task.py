"""What a control is given."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolora_core.engine.progress import Progress
from evolora_core.language.families.base import Item
from evolora_core.searches.merging.judging.judge import Judge
from evolora_core.searches.merging.recipe import Genome, Merge, Node
from evolora_core.searches.merging.settings import FineTuning, Gradients


@dataclass(frozen=True)
class Task:
    """One control in one run.

    budget      FLOPs that it may spend, all told
    gradients   its settings, for those that descend
    multitask   optimizer steps of all specialists together, for the one that takes them
    train       items of the specialists' training, for the same
    folder      where weights of its own go
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


def mean(parents: tuple[str, ...]) -> Genome:
    """The uniform mean."""
    return Genome(recipe=Merge(op="linear", inputs=list[Node](parents)))


def shifted(parents: tuple[str, ...], weights: np.ndarray) -> Genome:
    """Task arithmetic with a weight for each parent and layer group, `[parents, groups]`."""
    return Genome(recipe=Merge(op="task_arithmetic", inputs=list[Node](parents), params={"weight": weights.tolist()}))
