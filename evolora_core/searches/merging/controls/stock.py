"""Model stock (Jang et al. 2024, arXiv 2403.19522): the angle between parents says how far from base to mean."""

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task
from evolora_core.searches.merging.recipe import Genome, Merge, Node


def choose(task: Task) -> Choice:
    """Measured once on the search items."""
    genome = Genome(recipe=Merge(op="model_stock", inputs=list[Node](task.parents)))
    return Choice("recipe", genome, evaluations=1, search_score=task.judge.measure(genome).score)
