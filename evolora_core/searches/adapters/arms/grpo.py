"""The arm `grpo`: group relative policy optimisation of one adapter, with what the budget's arm spent, routing
included.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, chosen, common, stage_within_budget
from evolora_core.searches.adapters.settings.grpo import GrpoSettings

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig


class GrpoTraining(Training):
    """What it depends on."""

    grpo: GrpoSettings


class GrpoTrained(BaseModel):
    """How it ended."""

    steps: int
    left_out: int
    diverged: bool


def asked(config: "SuiteConfig", arm: str, trial: int | None) -> GrpoTraining:
    """The training of a condition."""
    return GrpoTraining(grpo=chosen(GrpoSettings, config, arm, trial), **common(config))


def train(work: Work[GrpoTraining], folder: Path) -> Made[GrpoTrained]:
    """Train into `folder`, then choose between adapter and host on the selection split, all within the budget.
    It leaves an adapter in PEFT's format, candidates.json, routes, and the tables `grpo_steps` and `compute`.
    """
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.adapters.arms.terms import terms_of
    from evolora_core.searches.adapters.rivals.grpo import train_grpo
    from evolora_core.searches.adapters.rivals.rewarded import train_and_route

    result = train_and_route(train_grpo, work.config.grpo, terms_of(work), folder)
    write_table(folder, "grpo_steps", result.steps)
    write_table(folder, "compute", result.meter.rows())
    return Made(
        result.meter.total(), GrpoTrained(steps=len(result.steps), left_out=result.left_out, diverged=result.diverged)
    )


TRAIN = stage_within_budget("grpo", __name__, asked, train)
