"""The arms of an adapter search: what each knows of itself. Nothing that is computed depends on this table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms import es, evolved, grpo, sft
from evolora_core.searches.adapters.arms.base import Training
from evolora_core.searches.base import Arm

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig


@dataclass(frozen=True)
class AdapterArm(Arm):
    """A kind of condition of an adapter search.

    module            where it is defined; a trial of it loads this module by name
    asked             its training, from the suite, the condition and the number of a trial
    train             trains into a folder; the body of its stage, and of its trials
    uses              modules that a training loads by name
    peopled           whether it needs a founder for each family
    follows_arrivals  whether it can be trained where families come one after another
    verifier_may_err  whether what it hears is the verifier that errs, or no verifier at all
    mapped_against    kinds with which the map compares it
    """

    module: str = ""
    asked: "Callable[[SuiteConfig, str, int | None], Training] | None" = None
    train: "Callable[[Work[Any], Path], Made[Any]] | None" = None
    uses: Callable[[Any], list[str]] = lambda training: []
    peopled: bool = False
    follows_arrivals: bool = False
    verifier_may_err: bool = True
    mapped_against: tuple[str, ...] = ()


ARMS: dict[str, AdapterArm] = {
    arm.name: arm
    for arm in (
        AdapterArm("frozen", None, "", look=("#7f7f7f", "s"), follows_arrivals=True),
        AdapterArm(
            "single",
            evolved.EVOLVE,
            "ecology",
            look=("#E69F00", "^"),
            module=evolved.__name__,
            asked=evolved.asked,
            train=evolved.train,
            uses=evolved.uses,
            follows_arrivals=True,
        ),
        AdapterArm(
            "ecology",
            evolved.EVOLVE,
            "ecology",
            look=("#0072B2", "o"),
            leads=True,
            module=evolved.__name__,
            asked=evolved.asked,
            train=evolved.train,
            uses=evolved.uses,
            peopled=True,
            follows_arrivals=True,
            mapped_against=("sft", "single"),
        ),
        AdapterArm(
            "sft",
            sft.TRAIN,
            "sft",
            look=("#D55E00", "D"),
            module=sft.__name__,
            asked=sft.asked,
            train=sft.train,
            follows_arrivals=True,
        ),
        AdapterArm(
            "es",
            es.TRAIN,
            "es",
            module=es.__name__,
            asked=es.asked,
            train=es.train,
            verifier_may_err=False,
        ),
        AdapterArm(
            "grpo",
            grpo.TRAIN,
            "grpo",
            module=grpo.__name__,
            asked=grpo.asked,
            train=grpo.train,
            verifier_may_err=False,
        ),
    )
}
# Which arms wait for others is in the plan; of those that could start, these take longest.
SLOWEST_FIRST = ("ecology", "single", "grpo", "es", "sft")
