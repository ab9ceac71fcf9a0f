"""Adam on the same coefficients, within the same bounds: task arithmetic with a weight for each parent and layer group.

Their gradients are known (AdaMerging, Yang et al. 2024, arXiv 2310.02575; here on gold answers), so this is what
evolution has to beat where a recipe is smooth.

A step takes a share of the search items, equally many of each domain, and costs a merge and three forward passes over
them. Each learning rate gets equally many steps; of every try a few states are measured on the search items.
"""

import time
from typing import Any

import numpy as np
import torch

from evolora_core.engine.rng import stream
from evolora_core.errors import Unaffordable
from evolora_core.searches.merging import finalists
from evolora_core.searches.merging.build import merge_flops
from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, shifted
from evolora_core.searches.merging.judging.judge import Failed
from evolora_core.searches.merging.judging.scoring import Batch, Questions, batches, encoded, logits
from evolora_core.searches.merging.models import shell
from evolora_core.searches.merging.recipe import Genome, group_at
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.spaces.smooth import HIGH, LOW
from evolora_core.searches.merging.training import BACKWARD, looks, pace, steps_within
from evolora_core.searches.merging.weights import place_of


class AnswerLogits(torch.nn.Module):
    """The function `logits` of a model as a module, so that it can be called with other weights."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits at the answers' tokens."""
        return logits(self.model, batch)


def choose(task: Task) -> Choice:
    """The coefficients that the selection items choose among the states kept of every try."""
    judge, settings = task.judge, task.gradients
    assert settings is not None
    questions, tries = judge.questions["search"], len(settings.learning_rates)
    states, domains = tries * settings.checkpoints, len(questions.weights)
    rows = max(1, round(settings.share * len(questions.items)) // domains)
    costs, merging, any_state = BACKWARD * judge.item_costs(), _merging(task), _uniform(task)

    def cost(step: int) -> int:
        drawn = (_picked(questions, rows, task.seed, step, number) for number in range(tries))
        return sum(merging + int(costs[picked].sum()) for picked in drawn)

    reserve = states * judge.cost(any_state) + min(task.finalists, states) * judge.cost(any_state, "selection")
    steps = steps_within(task.budget - judge.meter.total() - reserve, cost)
    if steps < settings.checkpoints:
        raise Unaffordable(f"adam: {steps} steps are left for each learning rate; raise budget.evaluations")
    tried: list[finalists.Ranked] = []
    measured = 0
    for number, rate in enumerate(settings.learning_rates):
        kept, taken = _descend(task, rate, steps, rows, number)
        measured += taken + len(kept)
        for weights in kept:
            genome = shifted(task.parents, weights)
            try:
                tried.append((genome, judge.measure(genome).score, None))
            except Failed:
                continue
            task.report(number + 1, tries, f"learning rate {rate:g}: {tried[-1][1]:.4f}")
    ranked = sorted(tried, key=lambda one: -one[1])
    return finalists.choose(ranked, judge, finalists=task.finalists, budget=task.budget, evaluations=measured)


def _uniform(task: Task) -> Genome:
    """The uniform mean, as a recipe of this search."""
    return shifted(task.parents, np.full((len(task.parents), task.groups), 1 / len(task.parents)))


def _merging(task: Task) -> int:
    """FLOPs of the merge that a step begins with, as strategies pay them."""
    return merge_flops(_uniform(task), task.judge.pool.models)


def _descend(task: Task, rate: float, steps: int, rows: int, number: int) -> tuple[list[np.ndarray], int]:
    """Weights `[parents, groups]` at equal distances on the way down, the last included, from steps of so many rows of
    each domain, and how many steps were taken: fewer where a gradient is not finite, of a parent that diverged, say.
    Starts at the uniform mean. Its steps are charged.
    """
    judge = task.judge
    pool, questions = judge.pool, judge.questions["search"]
    model = shell(pool.models[BASE].config, pool.host.device)
    device = pool.host.device
    base = {name: pool.models[BASE].get(name).to(device) for name in pool.models[BASE].names}
    names = list(base)
    deltas = {
        name: torch.stack([pool.models[own].get(name).to(device) - base[name] for own in task.parents])
        for name in names
    }
    group = {name: group_at(place_of(name, pool.layers), task.groups) for name in names}
    weights = torch.full((len(task.parents), task.groups), 1 / len(task.parents), device=device, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=rate)
    prompts, answers = encoded(pool.host, questions.items)
    kept, taken, started = [], [], time.monotonic()
    assert task.gradients is not None
    looked_at = looks(steps, task.gradients.checkpoints)
    for step in range(steps):
        for own in optimizer.param_groups:
            own["lr"] = rate * pace(step, steps)
        picked = _picked(questions, rows, task.seed, step, number)
        merged = {
            name: base[name] + torch.einsum("p,p...->...", weights[:, group[name]], deltas[name]) for name in names
        }
        total = torch.zeros((), device=device)
        for batch in batches([prompts[row] for row in picked], [answers[row] for row in picked], pool.host.pad_id):
            total = total + _loss(model, merged, batch.to(device), questions, picked)
        (gradient,) = torch.autograd.grad(total, [weights])
        taken.append(picked)
        if not bool(torch.isfinite(gradient).all()):
            break
        weights.grad = gradient
        optimizer.step()
        with torch.no_grad():
            weights.clamp_(LOW, HIGH)
        if step + 1 in looked_at:
            kept.append(weights.detach().cpu().double().numpy().round(6))
    rows_taken = np.array(taken)
    judge.meter.add("assimilation", len(taken) * _merging(task), 0, 0.0)  # their seconds are not told apart
    flops, tokens = BACKWARD * judge.item_costs()[rows_taken].sum(), questions.total[rows_taken].sum()
    judge.meter.add("update", int(flops), int(tokens), time.monotonic() - started)
    return kept, len(taken)


def _loss(
    model: Any, merged: dict[str, torch.Tensor], batch: Batch, questions: Questions, picked: list[int]
) -> torch.Tensor:
    """The part of the loss that a batch has: of each domain the mean over its tokens, weighted as in the score."""
    tokens = np.bincount(
        questions.domain_of[picked], weights=questions.answered[picked], minlength=len(questions.weights)
    )
    share = (questions.weights / np.maximum(tokens, 1))[questions.domain_of[picked]]
    scores = torch.func.functional_call(
        AnswerLogits(model), {f"model.{name}": own for name, own in merged.items()}, batch
    )
    each = torch.nn.functional.cross_entropy(scores, batch.targets, reduction="none")
    return (each * torch.from_numpy(share).to(each)[batch.items]).sum()


def _picked(questions: Questions, rows: int, seed: int, step: int, number: int) -> list[int]:
    """The rows of a step: so many of each domain, or all that it has."""
    rng = stream(seed, step, number, "merge.adam")
    found: list[int] = []
    for domain in range(len(questions.weights)):
        own = np.flatnonzero(questions.domain_of == domain)
        found += rng.choice(own, size=min(rows, len(own)), replace=False).tolist()
    return found
