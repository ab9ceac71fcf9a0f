"""Stage `evolve`: an ecology, or `single`, which spends on one organelle what the ecology of the same seed spent."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task
from tasks.matched import arrivals

if TYPE_CHECKING:
    from evolora_core.ecology.run import Run


def request(
    suite: Suite,
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    prices: StageResult,
    choice: StageResult | None = None,
    calibration: StageResult | None = None,
    budget: StageResult | None = None,
) -> StageRequest:
    """Evolve an arm like ecology or single. It goes on from its `calibration`, or, with `budget`, spends FLOPs relative
    to those of that stage.
    """
    generations = suite.config.ecology.generations
    config = evolve_config(suite, arm, suite.trial(arm, choice))
    if budget:
        config["budget_flops"] = round(suite.config.budget(arm) * budget.flops)
    elif not extensible(suite):
        config["generations"] = generations
    inputs = {"datasets": datasets, "prices": prices} | ({"calibration": calibration} if calibration else {})
    return stage_request(
        suite,
        "evolve",
        arm,
        seed,
        entry=__name__,
        config=config,
        horizon={"generations": generations} if extensible(suite) and not budget else None,
        inputs=inputs,
        refusal=too_long(suite, generations, calibration) if calibration else "",
    )


def extensible(suite: Suite) -> bool:
    """Whether a longer run is the same run: where families come and go, it is another one."""
    return not suite.config.data.arrivals


def too_long(suite: Suite, generations: int, calibration: StageResult) -> str:
    """Why an evolution that would take longer than the suite allows is not begun; nothing if it is short enough."""
    from evolora_core.ecology.foretaste import hours

    seconds, limit = calibration.summary["generation_seconds"], suite.config.calibration.hours
    wanted = hours(generations, seconds)
    if wanted <= limit:
        return ""
    return (
        f"calibrate: {generations} generations of {seconds:.0f} s each would take {wanted:.1f} hours, more than "
        f"calibration.hours = {limit:g}; lower ecology.generations or ecology.episodes, or raise calibration.hours"
    )


def evolve_config(suite: Suite, arm: str, trial: int | None) -> dict[str, Any]:
    """What an evolution depends on: everything of the ecology but its length and the trials that were not chosen.

    With twice the budget the learning rate takes twice as long to halve, as that of SFT falls to the end of its own.
    """
    ecology = suite.config.settings(arm, trial).model_dump(mode="json", exclude={"generations", "trials"})
    ecology["plasticity"]["half_life"] *= suite.config.budget(arm)
    return {
        "mode": suite.config.kind(arm),
        "ecology": ecology,
        "decoding": suite.config.decoding.model_dump(mode="json"),
        "routings": suite.config.trained_routings,
        "arrivals": arrivals(suite),
    }


def make(work: Work) -> Made:
    """Leaves population, routes and the tables of an evolution. It goes on from a shorter run's last commit if there is
    one, else from its calibration's.
    """
    extend_shorter_run(work)
    generations = work.horizon.get("generations", work.config.get("generations"))
    return run(work, work.folder, generations, work.config.get("budget_flops"))


def run(work: Work, folder: Path, generations: int | None, budget_flops: int | None) -> Made:
    """Evolve into `folder`, for so many generations or until the budget is spent."""
    from evolora_core.ecology.evolve import advance, finish

    begun = begin(work, folder, generations, budget_flops)
    advance(begun, work.report)
    evolved = finish(begun, work.config["routings"])
    return Made(evolved.meter.total(), {"generations": evolved.generations, "extinct": evolved.extinct})


def begin(work: Work, folder: Path, generations: int | None, budget_flops: int | None = None) -> "Run":
    """An evolution in `folder` that is to run for so many generations, or until the budget is spent."""
    from evolora_core.config import DecodingConfig, EcologyConfig
    from evolora_core.datasets import read_items
    from evolora_core.ecology import evolve
    from evolora_core.ecology.horizon import Horizon
    from evolora_core.ecology.regime import REGIMES
    from evolora_core.ecology.task import Task
    from evolora_core.pricing import Prices
    from tasks._worker import load_stage_host

    config = EcologyConfig.model_validate(work.config["ecology"])
    task = Task(
        load_stage_host(work.host),
        read_items(work.inputs["datasets"] / "train.jsonl"),
        read_items(work.inputs["datasets"] / "selection.jsonl"),
        DecodingConfig.model_validate(work.config["decoding"]),
        work.seed,
        Prices.load(work.inputs["prices"] / "calibration.json"),
    )
    horizon = Horizon(generations or config.generations, budget_flops, tuple(work.config["arrivals"]))
    return evolve.begin(task, config, horizon, REGIMES[work.config["mode"]], folder)


def extend_shorter_run(work: Work) -> None:
    """Copy the last commits of a finished run that differs only in being shorter, or those of the calibration, so that
    they are gone on from, not repeated.
    """
    if (work.folder / "checkpoints").exists():
        return
    earlier = work.inputs.get("calibration")
    shorter = [run for run in work.relatives if run.horizon["generations"] < work.horizon["generations"]]
    if shorter:
        earlier = max(shorter, key=lambda run: run.horizon["generations"]).folder
    if earlier:
        shutil.copytree(earlier / "checkpoints", work.folder / "checkpoints")


evolve = stage_task("evolve", request, make)
