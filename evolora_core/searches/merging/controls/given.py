"""The base, or one parent, as it is."""

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.roles import BASE


def choose(task: Task) -> Choice:
    """Measured once on the search items."""
    genome = Genome(recipe=task.parent or BASE)
    return Choice("recipe", genome, evaluations=1, search_score=task.judge.measure(genome).score)
