"""The best of the parents, by the search items and then the selection items, as every condition chooses."""

from evolora_core.searches.merging import finalists
from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, afford_parents, scored
from evolora_core.searches.merging.recipe import Genome


def choose(task: Task) -> Choice:
    """Every parent is measured. Unaffordable: the budget does not pay for that, and for one of them as a finalist."""
    afford_parents(task, "best-parent", task.judge.plain_cost("selection"))
    ranked = scored(task.judge, [Genome(recipe=name) for name in task.parents])
    return finalists.choose(
        ranked, task.judge, finalists=task.finalists, budget=task.budget, evaluations=len(task.parents)
    )
