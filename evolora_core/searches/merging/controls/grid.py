"""Tuned task arithmetic (Ilharco et al. 2023, arXiv 2212.04089): θ₀ + λ Σ τᵢ with one λ for all parents, on a grid."""

import numpy as np

from evolora_core.searches.merging import finalists
from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, shifted

LAMBDAS = np.round(np.arange(1, 21) * 0.05, 2)  # 0.05 … 1, as in the paper


def choose(task: Task) -> Choice:
    """Every λ is measured."""
    tried = [shifted(task.parents, np.full((len(task.parents), 1), value)) for value in LAMBDAS]
    scored = [(genome, task.judge.measure(genome).score, None) for genome in tried]
    ranked = sorted(scored, key=lambda one: -one[1])
    return finalists.choose(ranked, task.judge, finalists=task.finalists, budget=task.budget, evaluations=len(tried))
