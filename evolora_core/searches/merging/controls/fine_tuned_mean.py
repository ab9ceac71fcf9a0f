"""The uniform mean, fine-tuned on the search items with what a strategy may spend: equal information, equal FLOPs.

Each learning rate gets equally many steps; of every try a few states are measured on the selection items, which choose.
"""

import logging
import time
from typing import Any

import torch

from evolora_core.errors import Unaffordable
from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task, mean
from evolora_core.searches.merging.judging.judge import Failed
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.roles import BASE, MODEL
from evolora_core.searches.merging.training import (
    BACKWARD,
    early_looks,
    fine_tune,
    picked_rows,
    save_model,
    steps_within,
)

log = logging.getLogger("evolora_core.stages")


def choose(task: Task) -> Choice:
    """Leaves the weights in the folder `model`."""
    judge, settings = task.judge, task.gradients
    assert settings is not None
    pool, questions = judge.pool, judge.questions["search"]
    start = {name: value.clone() for name, value in judge.merged(mean(task.parents)).named_parameters()}
    tries, selection = len(settings.learning_rates), judge.plain_cost("selection")
    rows = max(1, round(settings.share * len(questions.items)))
    costs = BACKWARD * judge.item_costs()

    def cost(step: int) -> int:
        """FLOPs of one step of all tries. Rows differ in length, and it is known beforehand which are drawn."""
        drawn = (picked_rows(len(costs), rows, task.seed, step, _role(number)) for number in range(tries))
        return sum(int(costs[picked].sum()) for picked in drawn)

    left = task.budget - judge.meter.total() - judge.plain_cost() - (tries * settings.checkpoints + 1) * selection
    steps = steps_within(left, cost)
    if steps < settings.checkpoints:
        raise Unaffordable(f"fine-tuned-mean: {steps} steps are left for each learning rate; raise budget.evaluations")
    looked_at = early_looks(steps, settings.checkpoints)
    share = questions.weights[questions.domain_of] / _tokens_of(questions)
    best: dict[str, Any] = {"score": judge.measure_model(_model(pool, start), "selection").score, "note": "step 0"}
    best["weights"] = start
    for number, rate in enumerate(settings.learning_rates):
        model = _model(pool, start)
        started = time.monotonic()
        looked = 0.0

        def look(step: int, model: Any = model, number: int = number, rate: float = rate) -> None:
            nonlocal looked
            task.report(number * steps + step, tries * steps, f"learning rate {rate:g}")
            if step not in looked_at:
                return
            began = time.monotonic()
            try:
                score = judge.measure_model(model, "selection").score
            except Failed:
                score = float("-inf")
            if score > best["score"]:
                copied = {name: value.detach().clone() for name, value in model.named_parameters()}
                best.update(score=score, weights=copied, note=f"step {step} of {steps}, learning rate {rate:g}")
            looked += time.monotonic() - began

        spent = fine_tune(
            pool.host,
            model,
            questions.items,
            steps=steps,
            rows=rows,
            learning_rate=rate,
            seed=task.seed,
            role=_role(number),
            weights=share.tolist(),
            after=look,
        )
        judge.meter.add("update", spent.flops, spent.tokens, time.monotonic() - started - looked)
    if best["weights"] is start:
        log.warning("no fine-tuned state is better than the mean itself on the selection items; try lower rates")
    model = _model(pool, best["weights"])
    score = judge.measure_model(model, "search").score
    save_model(model, pool.host, task.folder / MODEL)
    return Choice("weights", None, None, 1, score, best["score"], best["note"])


def _role(number: int) -> str:
    """Name of the random stream that draws the rows of a try."""
    return f"merge.fine-tuned-mean.{number}"


def _model(pool: Any, weights: dict[str, torch.Tensor]) -> Any:
    model = shell(pool.models[BASE].config, pool.host.device)
    fill(model, weights.__getitem__)
    return model


def _tokens_of(questions: Any) -> Any:
    """For each item, the answer tokens of its whole domain: what the score divides by."""
    import numpy as np

    tokens = np.bincount(questions.domain_of, weights=questions.answered, minlength=len(questions.weights))
    return tokens[questions.domain_of] / tokens.mean()
