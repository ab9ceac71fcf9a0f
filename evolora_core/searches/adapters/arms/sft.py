"""The arm `sft`: supervised fine-tuning of one adapter, or one for each family, with what the budget's arm spent,
routing included.
"""

from functools import partial
from pathlib import Path

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, stage_within_budget, training_of
from evolora_core.searches.adapters.settings.sft import SftSettings


class SftTraining(Training):
    """What fine-tuning depends on."""

    sft: SftSettings


class SftTrained(BaseModel):
    """How it ended."""

    labels: int
    steps: int
    chosen_step: dict[str, int]  # by adapter
    left_out: int
    diverged: bool


asked = partial(training_of, SftTraining)


def train(work: Work[SftTraining], folder: Path) -> Made[SftTrained]:
    """Fine-tune into `folder`, then choose among the adapters and the host on the selection split, all within the
    budget. It leaves an adapter in PEFT's format for everything or for each family, candidates.json, routes, and the
    tables `sft_steps` and `compute`.
    """
    from evolora_core.searches.adapters.arms.terms import made, terms_of
    from evolora_core.searches.adapters.rivals.supervised import fine_tune_and_route

    own = work.config
    shares = own.arrival_shares or [1 / len(own.arrivals) for _ in own.arrivals]
    trained = fine_tune_and_route(own.sft, terms_of(work), folder, dict(zip(own.arrivals, shares, strict=True)))
    facts = SftTrained(
        labels=trained.labels,
        steps=len(trained.steps),
        chosen_step=trained.chosen,
        left_out=trained.left_out,
        diverged=trained.diverged,
    )
    return made(folder, trained.meter, facts, sft_steps=trained.steps)


TRAIN = stage_within_budget("sft", __name__, asked, train)
