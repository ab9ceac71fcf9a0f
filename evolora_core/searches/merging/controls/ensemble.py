"""The output ensemble: the mean of the parents' probabilities, token by token. It costs as many models as it has."""

import torch

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, afford_parents
from evolora_core.searches.merging.judging.scoring import Batch, logits
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.pool import Pool


def members(pool: Pool) -> list[torch.nn.Module]:
    """Every parent as a model of its own."""
    found = []
    for name in pool.parents:
        weights = pool.models[name]
        model = shell(weights.config, pool.host.device)
        fill(model, weights.get)
        found.append(model)
    return found


def mean_log_probabilities(scores: list[torch.Tensor]) -> torch.Tensor:
    """log mean exp of `[…, vocabulary]` log-probabilities of each member."""
    return torch.logsumexp(torch.stack(scores), dim=0) - torch.log(torch.tensor(float(len(scores))))


def choose(task: Task) -> Choice:
    """Measured once on the search items. Unaffordable: the budget does not pay for that."""
    afford_parents(task, "ensemble")
    models = members(task.judge.pool)

    def together(batch: Batch) -> torch.Tensor:
        return mean_log_probabilities([torch.log_softmax(logits(model, batch).float(), dim=-1) for model in models])

    score = task.judge.measure_by(together, len(models)).score
    return Choice("ensemble", evaluations=1, search_score=score, note=f"{len(models)} models answer together")
