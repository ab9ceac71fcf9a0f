"""Stages `tune`: settings are tried by a short run and judged by its answers to a holdout; then the best is chosen.
Every arm gets the same number of trials at the same share of the budget, on seeds that are never reported. Their
holdout items chose no route; as between any two seeds, some prompts of small families are in other seeds' splits too.
"""

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SerializeAsAny

from evolora_core.engine.stage import Made, NoFacts, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Changes, Strict
from evolora_core.errors import Unaffordable
from evolora_core.searches.adapters.arms.base import Choice, Training, arrival_shares
from evolora_core.searches.adapters.trials import Spent, best_trials, trial_budget

if TYPE_CHECKING:
    from evolora_core.engine.meter import Meter
    from evolora_core.searches.adapters.arms.registry import Trained
    from evolora_core.searches.adapters.experiment import SuiteConfig


log = logging.getLogger(__name__)


class Trial(Strict):
    """One trial: whose, what it changes, the module of its arm, and what the short run is given."""

    arm: str
    trial: int
    changes: Changes
    module: str
    training: SerializeAsAny[Training]


class Tried(BaseModel):
    """What a trial found. `flops` are the run's own, without the answers that judge it; of them `fixed_flops`, for
    prices and the choice of routes, would be the same in a longer run. `changes` are JSON. holdout_acc: None where the
    budget of the trial pays for no step.
    """

    arm: str
    trial: int
    changes: str
    holdout_acc: float | None
    flops: int
    fixed_flops: int
    extinct: bool
    stays: list[int] = []  # FLOPs of each family's; none: a rival's


class Nothing(Strict):
    """The choice depends on its inputs alone."""


def request_trial(
    suite: "Suite[SuiteConfig]",
    arm: str,
    trial: int,
    seed: int,
    by: "Trained",
    *,
    datasets: StageResult,
    prices: StageResult,
    lead_trials: Sequence[StageResult] = (),
) -> StageRequest:
    """Make trial number `trial` of a condition on a seed. `by` says how it is trained; `lead_trials` are those of the
    condition whose compute is the budget.
    """
    training, share = _budgeted(suite, arm, by.asked(suite.config, arm, trial), lead_trials)
    training = training.shortened(share)
    return stage_request(
        suite,
        f"try-{arm}-{trial}",
        "tuning",
        seed,
        entry=__name__,
        also=[by.module, *by.uses(training), *suite.config.modules_of(suite.config.data.train_families)],
        config=Trial(
            arm=arm,
            trial=trial,
            changes=suite.config.tuned_settings(arm).trials[trial],
            module=by.module,
            training=training,
        ),
        inputs={"datasets": datasets, "prices": prices},
    )


def _budgeted(
    suite: "Suite[SuiteConfig]", arm: str, training: Training, lead_trials: Sequence[StageResult]
) -> tuple[Training, float]:
    """A trial's training with its length or budget, and what share of the whole run that is.

    The arm whose compute is the budget runs a share of its generations, and the others spend what that cost.
    """
    config = suite.config
    generations = config.lead.generations
    fewest = len(training.arrivals) or 1  # each family that comes and goes stays for one at least
    tried = max(fewest, math.ceil(generations * config.tuning.fraction))
    if arm == config.budget_of:
        return training.model_copy(update={"generations": tried}), tried / generations
    facts = [result.facts(Tried) for result in lead_trials]
    spent = [Spent(own.flops, own.fixed_flops, own.extinct) for own in facts]
    flops, share = trial_budget(spent, config.budget(arm), generations, tried)
    shares = arrival_shares([own.stays for own in facts], config) if config.data.arrivals else []
    return training.model_copy(update={"budget_flops": flops, "arrival_shares": shares}), share


def attempt(work: Work[Trial]) -> Made[Tried]:
    """Leaves the short run in run/, the table `tuning` and the compute, all charged to `tuning`, as are the answers
    that judge it.
    """
    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import read_table, write_table
    from evolora_core.language.datasets import read_items
    from evolora_core.language.hosts.kept import stage_host
    from evolora_core.lora.population.trained import load_trained
    from evolora_core.searches.adapters.evaluation.trial import judge_trial
    from evolora_core.searches.adapters.routing.routes import read_routes
    from evolora_core.searches.adapters.routing.shots import read_shots

    folder = work.folder / "run"
    folder.mkdir(exist_ok=True)
    whole: Work[Any] = work
    training = replace(whole, config=work.config.training)
    arm = import_module(work.config.module)
    try:
        made: Made[Any] = arm.train(training, folder)
    except Unaffordable as error:
        log.warning("not run: %s", error)
        return _tried(work, None, Meter(), Made(0, NoFacts()), 0)
    host, meter = stage_host(work), Meter()
    population, _ = load_trained(host, folder)
    assert population is not None  # an arm without adapters has no trials
    accuracy = judge_trial(
        host,
        population,
        read_shots(folder),
        read_items(work.inputs["datasets"] / "holdout_id.jsonl"),
        read_routes(folder, training.config.routings[0]),
        meter,
        decoding=training.config.decoding,
        progress=work.report,
        folder=work.folder / ".answered",
    )
    rows = read_table(folder, "compute")
    for row in (row for row in rows if row["purpose"] != "calibration"):  # which was made, and counted, once
        meter.add("tuning", **{key: row[key] for key in ("flops", "tokens", "seconds", "executed_flops")})
    write_table(work.folder, "compute", meter.rows())
    fixed = sum(row["flops"] for row in rows if row["purpose"] in ("calibration", "routing"))
    return _tried(work, accuracy, meter, made, fixed)


def _tried(work: Work[Trial], accuracy: float | None, meter: "Meter", made: Made[Any], fixed: int) -> Made[Tried]:
    """Leave the row of the table `tuning`, and the facts."""
    from evolora_core.engine.tables import write_table

    tried = Tried(
        arm=work.config.arm,
        trial=work.config.trial,
        changes=json.dumps(work.config.changes),
        holdout_acc=accuracy,
        flops=made.flops,
        fixed_flops=fixed,
        extinct=getattr(made.facts, "extinct", False),
        stays=getattr(made.facts, "stays", []),
    )
    write_table(work.folder, "tuning", [tried.model_dump(exclude={"fixed_flops", "extinct", "stays"})])
    return Made(meter.total(), tried)


def request_choice(suite: "Suite[SuiteConfig]", trials: Sequence[StageResult]) -> StageRequest:
    """Choose among finished trials; asked for under the first tuning seed."""
    return stage_request(
        suite,
        "choose",
        "tuning",
        suite.config.tuning.seeds[0],
        entry=__name__,
        config=Nothing(),
        inputs={f"s{trial.seed}-{trial.stage}": trial for trial in trials},
        uses_host=False,
    )


def choose(work: Work[Nothing]) -> Made[Choice]:
    """The facts say the chosen trial of each arm."""
    tried = [result.facts(Tried) for result in work.results.values()]
    return Made(0, Choice(trials=best_trials((own.arm, own.trial, own.holdout_acc) for own in tried)))


TRY = Stage("tune", request_trial, attempt)
CHOOSE = Stage("tune", request_choice, choose)
