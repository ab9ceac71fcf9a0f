"""The arm `grpo`: group relative policy optimisation of one adapter, with what the budget's arm spent, routing
included.
"""

from functools import partial
from pathlib import Path

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, stage_within_budget, training_of
from evolora_core.searches.adapters.settings.grpo import GrpoSettings


class GrpoTraining(Training):
    """What it depends on."""

    grpo: GrpoSettings


class GrpoTrained(BaseModel):
    """How it ended."""

    steps: int
    left_out: int
    diverged: bool


asked = partial(training_of, GrpoTraining)


def train(work: Work[GrpoTraining], folder: Path) -> Made[GrpoTrained]:
    """Train into `folder`, then choose between adapter and host on the selection split, all within the budget.
    It leaves an adapter in PEFT's format, candidates.json, routes, and the tables `grpo_steps` and `compute`.
    """
    from evolora_core.searches.adapters.arms.terms import made, terms_of
    from evolora_core.searches.adapters.rivals.grpo import train_grpo
    from evolora_core.searches.adapters.rivals.rewarded import train_and_route

    result = train_and_route(train_grpo, work.config.grpo, terms_of(work), folder)
    facts = GrpoTrained(steps=len(result.steps), left_out=result.left_out, diverged=result.diverged)
    return made(folder, result.meter, facts, grpo_steps=result.steps)


TRAIN = stage_within_budget("grpo", __name__, asked, train)
