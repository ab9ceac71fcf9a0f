"""Stage `evolve`: an ecology, or `single`, which spends on one organelle what the ecology of the same seed spent."""

import shutil
from pathlib import Path
from typing import Any

from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task
from tasks.matched import arrivals


def request(
    suite: Suite,
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    calibration: StageResult,
    trial: int | None,
    budget: StageResult | None = None,
) -> StageRequest:
    """Evolve an arm like ecology or single; `budget` is the stage to whose FLOPs the arm's are relative."""
    generations = suite.config.ecology.generations
    extensible = not suite.config.data.arrivals  # where families come and go, a longer run is another one
    return stage_request(
        suite,
        "evolve",
        arm,
        seed,
        entry=__name__,
        config=evolve_config(suite, arm, trial)
        | ({"budget_flops": round(suite.config.budget(arm) * budget.flops)} if budget else {})
        | ({} if budget or extensible else {"generations": generations}),
        horizon={"generations": generations} if extensible and not budget else None,
        inputs={"datasets": datasets, "calibration": calibration},
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
    """Leaves population, routes and the tables of an evolution; goes on from a shorter run's last commit if there is
    one.
    """
    extend_shorter_run(work)
    generations = work.horizon.get("generations", work.config.get("generations"))
    return run(work, work.folder, generations, work.config.get("budget_flops"))


def run(work: Work, folder: Path, generations: int | None, budget_flops: int | None) -> Made:
    """Evolve into `folder`, for so many generations or until the budget is spent."""
    from evolora_core.config import DecodingConfig, EcologyConfig
    from evolora_core.datasets import read_items
    from evolora_core.ecology.calibration import Calibration
    from evolora_core.ecology.evolve import evolve
    from tasks._worker import load_stage_host

    ecology = dict(work.config["ecology"]) | ({"generations": generations} if generations else {})
    evolved = evolve(
        load_stage_host(work.host),
        read_items(work.inputs["datasets"] / "train.jsonl"),
        read_items(work.inputs["datasets"] / "selection.jsonl"),
        EcologyConfig.model_validate(ecology),
        DecodingConfig.model_validate(work.config["decoding"]),
        work.seed,
        Calibration.load(work.inputs["calibration"] / "calibration.json"),
        folder,
        routings=work.config["routings"],
        mode=work.config["mode"],
        budget_flops=budget_flops,
        arrivals=work.config["arrivals"],
        progress=work.report,
    )
    return Made(evolved.meter.total(), {"generations": evolved.generations, "extinct": evolved.extinct})


def extend_shorter_run(work: Work) -> None:
    """Copy the last commit of a finished run that differs only in being shorter, so that it is extended, not
    repeated.
    """
    if (work.folder / "checkpoints").exists() or not work.horizon:
        return
    shorter = [run for run in work.relatives if run.horizon["generations"] < work.horizon["generations"]]
    if shorter:
        longest = max(shorter, key=lambda run: run.horizon["generations"])
        shutil.copytree(longest.folder / "checkpoints", work.folder / "checkpoints")


evolve = stage_task("evolve", make)
