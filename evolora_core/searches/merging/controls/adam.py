"""Adam on the same coefficients, within the same bounds: task arithmetic with a weight for each parent and layer group.

Their gradients are known (AdaMerging, Yang et al. 2024, arXiv 2310.02575; here on gold answers), so this is what
evolution has to beat where a recipe is smooth.

A step takes a share of the search items, each domain's in turn, and costs three forward passes over them. Each learning
rate gets an equal share of the budget; of every try a few states are measured on the search items.
"""

import time
from typing import Any

import numpy as np
import torch

from evolora_core.engine.rng import stream
from evolora_core.errors import Unaffordable
from evolora_core.searches.merging import finalists
from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, shifted
from evolora_core.searches.merging.judging.judge import Failed, shell
from evolora_core.searches.merging.judging.scoring import Batch, Questions, batches, encoded, logits
from evolora_core.searches.merging.recipe import group_at
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.spaces.smooth import HIGH, LOW
from evolora_core.searches.merging.training import BACKWARD, looks, pace
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
    states = tries * settings.checkpoints
    rows = max(len(questions.weights), round(settings.share * len(questions.items)))
    step_cost = BACKWARD * judge.plain_cost() * rows / len(questions.items)
    reserve = states * judge.plain_cost() + min(task.finalists, states) * judge.plain_cost("selection")
    steps = int((task.budget - judge.meter.total() - reserve) / tries / step_cost)
    if steps < settings.checkpoints:
        raise Unaffordable(f"adam: {max(0, steps)} steps are left for each learning rate; raise budget.evaluations")
    tried: list[finalists.Ranked] = []
    done = 0
    for number, rate in enumerate(settings.learning_rates):
        kept, taken = _descend(task, rate, steps, rows, number, step_cost)
        done += taken
        for weights in kept:
            genome = shifted(task.parents, weights)
            try:
                tried.append((genome, judge.measure(genome).score, None))
            except Failed:
                continue
            task.report(number + 1, tries, f"learning rate {rate:g}: {tried[-1][1]:.4f}")
    ranked = sorted(tried, key=lambda one: -one[1])
    return finalists.choose(ranked, judge, finalists=task.finalists, budget=task.budget, evaluations=len(tried) + done)


def _descend(
    task: Task, rate: float, steps: int, rows: int, number: int, step_cost: float
) -> tuple[list[np.ndarray], int]:
    """Weights `[parents, groups]` at equal distances on the way down, the last included, and how many steps were taken:
    fewer where a gradient is not finite, of a parent that diverged, say. Starts at the uniform mean."""
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
    kept, taken, started = [], 0, time.monotonic()
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
        taken = step + 1
        if not bool(torch.isfinite(gradient).all()):
            break
        weights.grad = gradient
        optimizer.step()
        with torch.no_grad():
            weights.clamp_(LOW, HIGH)
        if step + 1 in looked_at:
            kept.append(weights.detach().cpu().double().numpy().round(6))
    spent = round(taken * step_cost)
    judge.meter.add(
        "update", spent, taken * round(questions.tokens * rows / len(questions.items)), time.monotonic() - started
    )
    return kept, taken


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
    """Rows of a step, equally many of each domain."""
    rng = stream(seed, step, number, "merge.adam")
    each = max(1, rows // len(questions.weights))
    found: list[int] = []
    for domain in range(len(questions.weights)):
        own = np.flatnonzero(questions.domain_of == domain)
        found += rng.choice(own, size=min(each, len(own)), replace=False).tolist()
    return found
