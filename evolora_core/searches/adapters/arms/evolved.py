"""The arms `ecology` and `single`, and their stages: `calibrate`, the first generations of a run, and `evolve`, which
resumes it.

The arm whose compute is the budget runs for so many generations, after a calibration, which measures what a generation
takes and fails early where nothing could be learned. All others run until their budget is spent.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel

from evolora_core.engine.stage import Made, NotRun, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.searches.adapters.arms.base import Training, budget_from, chosen_trial, common, if_affordable
from evolora_core.searches.adapters.ecology.regimes.names import REGIMES
from evolora_core.searches.adapters.ecology.rules.names import RULES
from evolora_core.searches.adapters.settings.ecology import EcologySettings

if TYPE_CHECKING:
    from evolora_core.searches.adapters.ecology.run import Run
    from evolora_core.searches.adapters.experiment import SuiteConfig


class Evolution(Training):
    """An evolution of so many generations, or until a budget is spent; with `first`, the first generations of it."""

    regime: str
    ecology: EcologySettings
    generations: int | None = None  # where the run cannot be extended: else its horizon says
    first: int | None = None

    def shortened(self, share: float) -> Self:
        """The learning rate falls as far as in the whole run, and contests end at the same part of it."""
        ecology = _slower(self.ecology, round(share, 6))
        contest = ecology.contest
        sooner = {"every": max(1, round(contest.every * share))}
        if contest.ends is not None:
            sooner["ends"] = max(1, round(contest.ends * share))
        ecology = ecology.model_copy(update={"contest": contest.model_copy(update=sooner)})
        return self.model_copy(update={"ecology": ecology})


class Calibrated(BaseModel):
    """What the first generations took."""

    generations: int
    generation_seconds: float


class Ended(BaseModel):
    """How an evolution ended."""

    generations: int
    extinct: bool
    stays: list[int]  # FLOPs of each family's, where they come one after another


def asked(config: "SuiteConfig", arm: str, trial: int | None) -> Evolution:
    """What an evolution depends on: everything of its section but its length and the trials that were not chosen.

    With twice the budget the learning rate takes twice as long to halve, as that of SFT falls to the end of its own.
    """
    settings = config.settings(arm, trial)
    ecology = EcologySettings.model_validate(settings.model_dump(exclude={"generations", "trials"}))
    return Evolution(regime=config.kind(arm).name, ecology=_slower(ecology, config.budget(arm)), **common(config))


def uses(run: Evolution) -> list[str]:
    """The modules of its regime and of its learning rule, which are loaded by name."""
    return [REGIMES[run.regime], RULES[run.ecology.plasticity.rule]]


def _slower(ecology: EcologySettings, factor: float) -> EcologySettings:
    """With a learning rate that takes `factor` times as long to halve."""
    half_life = ecology.plasticity.half_life * factor
    return ecology.model_copy(update={"plasticity": ecology.plasticity.model_copy(update={"half_life": half_life})})


def request_calibration(
    suite: "Suite[SuiteConfig]",
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    prices: StageResult,
    choice: StageResult | None = None,
) -> StageRequest:
    """Run the first generations of an arm that runs for so many."""
    wanted = suite.config.lead.generations
    begun = asked(suite.config, arm, chosen_trial(suite, arm, choice)).model_copy(
        update={
            "first": min(suite.config.calibration.generations, wanted),
            "generations": None if extensible(suite) else wanted,
        }
    )
    return _request(suite, "calibrate", arm, seed, begun, {"datasets": datasets, "prices": prices})


def request_evolution(
    suite: "Suite[SuiteConfig]",
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    prices: StageResult,
    choice: StageResult | None = None,
    calibration: StageResult | None = None,
    budget: StageResult | None = None,
) -> StageRequest:
    """Evolve an arm. It goes on from its `calibration`, or, with `budget`, spends FLOPs relative to those of that
    stage.
    """
    wanted, inputs = suite.config.lead.generations, {"datasets": datasets, "prices": prices}
    whole = asked(suite.config, arm, chosen_trial(suite, arm, choice))
    if budget:
        whole = whole.model_copy(update=budget_from(suite, arm, budget))
        return _request(suite, "evolve", arm, seed, whole, inputs)
    if not extensible(suite):
        whole = whole.model_copy(update={"generations": wanted})
    return _request(
        suite,
        "evolve",
        arm,
        seed,
        whole,
        inputs | ({"calibration": calibration} if calibration else {}),
        horizon={"generations": wanted} if extensible(suite) else None,
        refusal=too_long(suite, wanted, calibration) if calibration else "",
    )


def _request(
    suite: "Suite[SuiteConfig]",
    stage: str,
    arm: str,
    seed: int,
    run: Evolution,
    inputs: dict[str, StageResult],
    horizon: dict[str, int] | None = None,
    refusal: str = "",
) -> StageRequest:
    return stage_request(
        suite,
        stage,
        arm,
        seed,
        entry=__name__,
        also=[*suite.config.modules_of(suite.config.data.train_families), *uses(run)],
        config=run,
        inputs=inputs,
        horizon=horizon,
        refusal=refusal,
    )


def extensible(suite: "Suite[SuiteConfig]") -> bool:
    """Whether a longer run is the same run: where families come and go, it is another one."""
    return not suite.config.data.arrivals


def too_long(suite: "Suite[SuiteConfig]", generations: int, calibration: StageResult) -> str:
    """Why an evolution that would take longer than the suite allows is not begun; nothing if it is short enough."""
    seconds, limit = calibration.facts(Calibrated).generation_seconds, suite.config.calibration.hours
    wanted = generations * seconds / 3600
    if wanted <= limit:
        return ""
    return (
        f"calibrate: {generations} generations of {seconds:.0f} s each would take {wanted:.1f} hours, more than "
        f"calibration.hours = {limit:g}; lower ecology.generations or ecology.episodes, or raise calibration.hours"
    )


def calibrate(work: Work[Evolution]) -> Made[Calibrated]:
    """Leaves the last commits of the run, and the table `calibration`; what was computed is in the run's own table."""
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.adapters.ecology.evolve import advance
    from evolora_core.searches.adapters.ecology.first_generations import measure

    first = work.config.first
    assert first is not None
    run = begin(work, work.folder, work.config.generations or first)
    advance(run, work.report, generations=first)
    found = measure(run)
    write_table(work.folder, "calibration", found.rows())
    return Made(
        run.state.meter.total(),
        Calibrated(generations=found.generations, generation_seconds=found.generation_seconds),
    )


def evolve(work: Work[Evolution]) -> Made[Ended] | Made[NotRun]:
    """Leaves population, routes and the tables of an evolution. It goes on from a shorter run's last commit if there is
    one, else from its calibration's.
    """
    if not (work.folder / "checkpoints").exists() and (earlier := _earlier(work)):
        draft = work.folder / "checkpoints.part"  # a copy that was cut off is no copy
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(earlier / "checkpoints", draft)
        draft.rename(work.folder / "checkpoints")
    return if_affordable(train, work)


def train(work: Work[Evolution], folder: Path) -> Made[Ended]:
    """Evolve into `folder`, for the generations of the horizon or settings, or until the budget is spent."""
    from evolora_core.searches.adapters.ecology.evolve import advance, finish

    run = begin(work, folder, work.horizon.get("generations", work.config.generations))
    advance(run, work.report)
    evolved = finish(run, work.config.routings)
    ended = Ended(generations=evolved.generations, extinct=evolved.extinct, stays=evolved.stays)
    return Made(evolved.meter.total(), ended)


def begin(work: Work[Evolution], folder: Path, generations: int | None) -> "Run":
    """An evolution in `folder`, founded or resumed, that is to run for so many generations, or for its budget."""
    from evolora_core.language.datasets import read_items
    from evolora_core.language.hosts.kept import stage_host
    from evolora_core.lora.answering.pricing import Prices
    from evolora_core.searches.adapters.ecology import evolve
    from evolora_core.searches.adapters.ecology.horizon import Horizon
    from evolora_core.searches.adapters.ecology.regimes.registry import regime
    from evolora_core.searches.adapters.ecology.task import Task

    task = Task(
        host=stage_host(work),
        items=read_items(work.inputs["datasets"] / "train.jsonl"),
        selection=read_items(work.inputs["datasets"] / "selection.jsonl"),
        decoding=work.config.decoding,
        seed=work.seed,
        prices=Prices.load(work.inputs["prices"] / "calibration.json"),
    )
    config = work.config
    horizon = Horizon(generations, config.budget_flops, tuple(config.arrivals), tuple(config.arrival_shares))
    return evolve.begin(task, work.config.ecology, horizon, regime(work.config.regime), folder)


def _earlier(work: Work[Evolution]) -> Path | None:
    """The folder of the longest shorter run that differs only in being shorter, or that of the calibration."""
    shorter = [run for run in work.relatives if run.horizon["generations"] < work.horizon["generations"]]
    if shorter:
        return max(shorter, key=lambda run: run.horizon["generations"]).folder
    return work.inputs.get("calibration")


CALIBRATE = Stage("calibrate", request_calibration, calibrate)
EVOLVE = Stage("evolve", request_evolution, evolve)
