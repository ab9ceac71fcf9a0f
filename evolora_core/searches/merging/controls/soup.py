"""Greedy soup (Wortsman et al. 2022, arXiv 2203.05482): parents from the best to the worst; each stays in the mean
if the mean gets better by it.
"""

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, mean, scored
from evolora_core.searches.merging.judging.judge import Failed
from evolora_core.searches.merging.recipe import Genome


def choose(task: Task) -> Choice:
    """Measures each parent, and as many means less one."""
    ranked = scored(task.judge, [Genome(recipe=name) for name in task.parents])
    if not ranked:
        raise Failed("judge", "none of the parents could be measured")
    order = [str(genome.recipe) for genome, _, _ in ranked]
    genome, best, _ = ranked[0]
    kept: tuple[str, ...] = (order[0],)
    for name in order[1:]:
        longer = scored(task.judge, [mean((*kept, name))])
        if longer and longer[0][1] >= best:
            kept, (genome, best, _) = (*kept, name), longer[0]
    evaluations = len(task.parents) + len(order) - 1
    return Choice("recipe", genome, evaluations=evaluations, search_score=best, note=f"of {', '.join(kept)}")
