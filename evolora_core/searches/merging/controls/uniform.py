"""The uniform mean of the parents (Wortsman et al. 2022, arXiv 2203.05482)."""

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, mean


def choose(task: Task) -> Choice:
    """Measured once on the search items."""
    genome = mean(task.parents)
    return Choice("recipe", genome, evaluations=1, search_score=task.judge.measure(genome).score)
