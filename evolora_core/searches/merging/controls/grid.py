"""Tuned task arithmetic (Ilharco et al. 2023, arXiv 2212.04089): θ₀ + λ Σ τᵢ with one λ for all parents, on a grid."""

import numpy as np

from evolora_core.errors import Unaffordable
from evolora_core.searches.merging import finalists
from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, scored, shifted

MOST = 20  # λ of 0.05 … 1, as in the paper


def choose(task: Task) -> Choice:
    """Every λ is measured: so many at equal distances up to 1 as the budget pays for beside the finalists.

    Unaffordable: it does not pay for one.
    """
    judge, parents = task.judge, len(task.parents)
    some = shifted(task.parents, np.ones((parents, 1)))
    left, cost, again = task.budget - judge.meter.total(), judge.cost(some), judge.cost(some, "selection")
    count = next((n for n in range(MOST, 0, -1) if n * cost + min(n, task.finalists) * again <= left), 0)
    if not count:
        raise Unaffordable("lambda-grid: the budget does not pay for one λ and its selection; raise budget.evaluations")
    lambdas = np.round(np.arange(1, count + 1) / count, 2)
    tried = [shifted(task.parents, np.full((parents, 1), value)) for value in lambdas]
    ranked = scored(judge, tried)
    return finalists.choose(ranked, judge, finalists=task.finalists, budget=task.budget, evaluations=len(tried))
