"""The best of the parents, by the search items and then the selection items, as every condition chooses."""

from evolora_core.searches.merging import finalists
from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, scored
from evolora_core.searches.merging.recipe import Genome


def choose(task: Task) -> Choice:
    """Every parent is measured."""
    ranked = scored(task.judge, [Genome(recipe=name) for name in task.parents])
    return finalists.choose(
        ranked, task.judge, finalists=task.finalists, budget=task.budget, evaluations=len(task.parents)
    )
