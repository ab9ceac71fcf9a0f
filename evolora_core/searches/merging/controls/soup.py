"""Greedy soup (Wortsman et al. 2022, arXiv 2203.05482): parents from the best to the worst; each stays in the mean
if the mean gets better by it.
"""

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, afford_parents, mean, scored
from evolora_core.searches.merging.judging.judge import Failed
from evolora_core.searches.merging.recipe import Genome


def choose(task: Task) -> Choice:
    """Measures each parent, and as many means less one as the budget pays for. Unaffordable: not for the parents."""
    afford_parents(task, "greedy-soup")
    ranked = scored(task.judge, [Genome(recipe=name) for name in task.parents])
    if not ranked:
        raise Failed("judge", "none of the parents could be measured")
    order = [str(genome.recipe) for genome, _, _ in ranked]
    genome, best, _ = ranked[0]
    kept: tuple[str, ...] = (order[0],)
    evaluations = len(task.parents)
    for name in order[1:]:
        longer = mean((*kept, name))
        if task.judge.meter.total() + task.judge.cost(longer) > task.budget:
            break
        evaluations += 1
        measured = scored(task.judge, [longer])
        if measured and measured[0][1] >= best:
            kept, (genome, best, _) = (*kept, name), measured[0]
    return Choice("recipe", genome, evaluations=evaluations, search_score=best, note=f"of {', '.join(kept)}")
