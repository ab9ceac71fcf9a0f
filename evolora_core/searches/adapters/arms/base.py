"""What every stage that trains an arm of an adapter search is given."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel

from evolora_core.engine.stage import Made, NotRun, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.errors import Unaffordable
from evolora_core.language.decoding import DecodingConfig

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig


log = logging.getLogger(__name__)

Facts = TypeVar("Facts", bound=BaseModel)
Own = TypeVar("Own", bound="Training")


class Training(Strict):
    """What every stage that trains is given, beside the settings of its arm."""

    decoding: DecodingConfig
    routings: list[str]  # for which routes are chosen, the headline first
    arrivals: list[str]  # families in the order in which they come and go; none: all are there all the time
    arrival_shares: list[float] = []  # of the budget, what each arrival may take; []: equally much
    budget_flops: int | None = None

    def shortened(self, share: float) -> Self:
        """The same for a trial that is `share` of the whole run."""
        return self


class Stays(BaseModel):
    """Of the stage whose compute is the budget: the FLOPs of each family's stay."""

    stays: list[int]


class Choice(BaseModel):
    """What tuning chose: the number of a trial by arm."""

    trials: dict[str, int]


def common(config: "SuiteConfig") -> dict[str, Any]:
    """The parts of a training that are the same for every arm."""
    data = config.data
    return {
        "decoding": config.decoding,
        "routings": config.trained_routings,
        "arrivals": config.full_names(data.train_families) if data.arrivals else [],
    }


def training_of(kind: type[Own], config: "SuiteConfig", arm: str, trial: int | None) -> Own:
    """The training of a condition, or of one of its trials where it has any: what all arms share, and under the name
    of its section the settings without the trials.
    """
    own = config.kind(arm)
    settings = config.settings(arm, trial if own.tuned else None).model_dump(exclude={"trials"})
    return kind.model_validate({**common(config), own.section: settings})


def chosen_trial(suite: "Suite[SuiteConfig]", arm: str, choice: StageResult | None) -> int | None:
    """The number of the trial that was chosen for an arm; None if there are no trials, or it has none."""
    if not suite.config.kind(arm).tuned:
        return None
    if choice:
        return choice.facts(Choice).trials[arm]
    return 0 if suite.config.trials else None


def budget_from(suite: "Suite[SuiteConfig]", arm: str, budget: StageResult) -> dict[str, Any]:
    """What a training may spend, as changes to it: FLOPs relative to those of the stage `budget`, and, where families
    come one after another, the same share of them for each as there.
    """
    shares = arrival_shares([budget.facts(Stays).stays], suite.config) if suite.config.data.arrivals else []
    return {"budget_flops": round(suite.config.budget(arm) * budget.flops), "arrival_shares": shares}


def arrival_shares(stays: Sequence[Sequence[int]], config: "SuiteConfig") -> list[float]:
    """Which share of their FLOPs runs spent on each family while it was there, the mean over those in which every
    family had some; [] without any.
    """
    whole = [own for own in stays if len(own) == len(config.data.train_families) and min(own) > 0]
    return [fmean(own[place] / sum(own) for own in whole) for place in range(len(whole[0]))] if whole else []


def if_affordable(train: Callable[[Work[Any], Path], Made[Facts]], work: Work[Any]) -> Made[Facts] | Made[NotRun]:
    """What `train` makes in the folder of a stage; where its budget is too small, the reason, and nothing was spent."""
    try:
        return train(work, work.folder)
    except Unaffordable as error:
        log.warning("not run: %s", error)
        return Made(0, NotRun(not_run=str(error)))


def request_within_budget(
    name: str,
    entry: str,
    asked: "Callable[[SuiteConfig, str, int | None], Training]",
    suite: "Suite[SuiteConfig]",
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    prices: StageResult,
    budget: StageResult,
    choice: StageResult | None = None,
) -> StageRequest:
    """Train a condition by the stage `name`, whose body stands in the module `entry`: `asked` says what for, and
    `budget` is the stage to whose FLOPs its own are relative.
    """
    own = asked(suite.config, arm, chosen_trial(suite, arm, choice))
    return stage_request(
        suite,
        name,
        arm,
        seed,
        entry=entry,
        also=suite.config.modules_of(suite.config.data.train_families),
        config=own.model_copy(update=budget_from(suite, arm, budget)),
        inputs={"datasets": datasets, "prices": prices},
    )


def stage_within_budget(
    name: str,
    entry: str,
    asked: "Callable[[SuiteConfig, str, int | None], Training]",
    train: Callable[[Work[Any], Path], Made[Any]],
) -> Stage:
    """The stage `name` of an arm that spends a budget. Both functions stand in the module `entry`: `asked` says what
    for, and `train` does it.
    """
    return Stage(name, partial(request_within_budget, name, entry, asked), partial(if_affordable, train))
