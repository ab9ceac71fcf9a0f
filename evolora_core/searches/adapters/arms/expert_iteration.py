"""The arm `expert-iteration`: one adapter that is fine-tuned on its own right answers in rounds, with what the budget's
arm spent, routing included.
"""

from dataclasses import asdict
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, stage_within_budget, training_of
from evolora_core.searches.adapters.settings.expert_iteration import ExpertIterationSettings


class ExpertIterationTraining(Training):
    """What it depends on."""

    expert_iteration: ExpertIterationSettings


class ExpertIterationTrained(BaseModel):
    """How it ended."""

    rounds: int
    steps: int
    diverged: bool


asked = partial(training_of, ExpertIterationTraining)


def train(work: Work[ExpertIterationTraining], folder: Path) -> Made[ExpertIterationTrained]:
    """Train into `folder`, then choose between adapter and host on the selection split, all within the budget.
    It leaves an adapter in PEFT's format, candidates.json, routes, and the tables `expert_rounds`, `compute` and, where
    anything right was found, `sft_steps`.
    """
    from evolora_core.searches.adapters.arms.terms import made, terms_of
    from evolora_core.searches.adapters.rivals.expert_iteration import train_expert_iteration
    from evolora_core.searches.adapters.rivals.rewarded import train_and_route

    result = train_and_route(train_expert_iteration, work.config.expert_iteration, terms_of(work), folder)
    facts = ExpertIterationTrained(rounds=len(result.rounds), steps=len(result.steps), diverged=result.diverged)
    rounds = [asdict(own) for own in result.rounds]
    return made(folder, result.meter, facts, expert_rounds=rounds, sft_steps=result.steps)


TRAIN = stage_within_budget("expert-iteration", __name__, asked, train)
