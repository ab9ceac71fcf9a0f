"""What compute-matched rivals share: how they are asked for, and the training of one adapter from rewards alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tasks._stage import StageRequest, StageResult, Suite, Work, stage_request
from tasks._tables import write_table


def matched_request(
    suite: Suite,
    stage: str,
    arm: str,
    seed: int,
    *,
    entry: str,
    config: dict[str, Any],
    datasets: StageResult,
    calibration: StageResult,
    budget: StageResult,
) -> StageRequest:
    """Train an arm; `budget` is the stage to whose FLOPs the arm's are relative. `config` is all else it depends on."""
    spending = {"budget_flops": round(suite.config.budget(arm) * budget.flops)}
    inputs = {"datasets": datasets, "calibration": calibration}
    return stage_request(suite, stage, arm, seed, entry=entry, config=config | spending, inputs=inputs)


def arrivals(suite: Suite) -> list[str]:
    """The families in the order in which they come and go; none if all are there all the time."""
    return suite.config.data.train_families if suite.config.data.arrivals else []


def rival_config(suite: Suite, section: str, arm: str, trial: int | None) -> dict[str, Any]:
    """What a rival depends on, its budget apart: its section of the suite, decoding and routers."""
    return {
        section: suite.config.settings(arm, trial).model_dump(mode="json", exclude={"trials"}),
        "decoding": suite.config.decoding.model_dump(mode="json"),
        "routings": suite.config.trained_routings,
        "arrivals": arrivals(suite),
    }


class Trained(Protocol):
    """What the training of one adapter returns: its compute by purpose, and a row for each step."""

    @property
    def meter(self) -> Any: ...
    @property
    def steps(self) -> list[dict[str, float]]: ...


Result = TypeVar("Result", bound=Trained)


def train_one(
    work: Work, folder: Path, budget_flops: int, config: Any, train: Callable[..., Result], table: str
) -> Result:
    """Let `train` make one adapter in `folder`/all, then choose between it and the host on the selection split, all
    within the budget. Leaves candidates.json, routes, and the tables `table`, of its steps, and `compute`.
    """
    from evolora_core.compute import FlopModel
    from evolora_core.config import DecodingConfig
    from evolora_core.datasets import read_items
    from evolora_core.ecology.calibration import Calibration
    from evolora_core.rivals.candidates import load_candidates, write_candidates
    from evolora_core.routing import choose_among
    from tasks._worker import load_stage_host

    host = load_stage_host(work.host)
    selection = read_items(work.inputs["datasets"] / "selection.jsonl")
    calibration = Calibration.load(work.inputs["calibration"] / "calibration.json")
    decoding = DecodingConfig.model_validate(work.config["decoding"])
    reserve = calibration.routing_reserve(FlopModel.from_model(host.model), len(selection), [config.rank])
    result = train(
        host,
        read_items(work.inputs["datasets"] / "train.jsonl"),
        config,
        budget_flops=budget_flops - reserve,
        seed=work.seed,
        folder=folder / "all",
        decoding=decoding,
        progress=work.report,
    )
    rows = write_candidates(folder, ["all"], [1.0])
    choose_among(
        host,
        load_candidates(host, folder),
        selection,
        {"": [row["slot"] for row in rows]},
        work.config["routings"],
        folder,
        result.meter,
        decoding=decoding,
    )
    write_table(folder, table, result.steps)
    write_table(folder, "compute", result.meter.rows())
    return result
