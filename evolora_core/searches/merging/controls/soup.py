"""Greedy soup (Wortsman et al. 2022, arXiv 2203.05482): parents from the best to the worst; each stays in the mean
if the mean gets better by it.
"""

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, mean
from evolora_core.searches.merging.recipe import Genome


def choose(task: Task) -> Choice:
    """Measures each parent, and as many means less one."""
    alone = {name: task.judge.measure(Genome(recipe=name)).score for name in task.parents}
    order = sorted(task.parents, key=lambda name: -alone[name])
    best = alone[order[0]]
    kept: tuple[str, ...] = (order[0],)
    for name in order[1:]:
        score = task.judge.measure(mean((*kept, name))).score
        if score >= best:
            kept, best = (*kept, name), score
    genome = mean(kept) if len(kept) > 1 else Genome(recipe=kept[0])
    return Choice("recipe", genome, evaluations=2 * len(order) - 1, search_score=best, note=f"of {', '.join(kept)}")
