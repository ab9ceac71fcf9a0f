"""The arms of an adapter search: who trains each kind of condition. Nothing that is computed depends on this table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.engine.stage import Made, Stage, Work
from evolora_core.searches.adapters.arms import es, evolved, examples, expert_iteration, grpo, sft
from evolora_core.searches.adapters.arms.base import Training
from evolora_core.searches.adapters.arms.kinds import KINDS, Kind
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.base import Arm


def nothing_more(training: Any) -> list[str]:
    """The modules that a training loads by name: none."""
    return []


@dataclass(frozen=True)
class Trained(Arm):
    """An arm for which something is trained.

    module   where it stands; a trial of the arm loads this module by name, and calls its function `train`
    asked    its training, from the suite, the condition and the number of a trial
    train    trains into a folder: the body of its stage, and of its trials
    uses     modules that a training loads by name
    """

    stage: Stage
    kind: Kind
    module: str
    asked: Callable[[SuiteConfig, str, int | None], Training]
    train: Callable[[Work[Any], Path], Made[Any]]
    uses: Callable[[Any], list[str]] = nothing_more


# The slowest first: of those that could start, they are started first.
TRAINED: dict[str, Trained] = {
    arm.name: arm
    for arm in (
        *(
            Trained(name, evolved.EVOLVE, KINDS[name], evolved.__name__, evolved.asked, evolved.train, evolved.uses)
            for name in ("ecology", "single")
        ),
        *(
            Trained(name, module.TRAIN, KINDS[name], module.__name__, module.asked, module.train)
            for name, module in (
                ("grpo", grpo),
                ("expert-iteration", expert_iteration),
                ("es", es),
                ("sft", sft),
                ("examples", examples),
            )
        ),
    )
}
ARMS: dict[str, Arm] = {name: TRAINED.get(name, Arm(name, None)) for name in KINDS}
