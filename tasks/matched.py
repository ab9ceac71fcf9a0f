"""How compute-matched rivals are asked for, and what they are given."""

from typing import Any

from evolora_core.families import get
from tasks._stage import StageRequest, StageResult, Suite, Work, stage_request


def matched_request(
    suite: Suite,
    stage: str,
    arm: str,
    seed: int,
    *,
    entry: str,
    config: dict[str, Any],
    datasets: StageResult,
    prices: StageResult,
    budget: StageResult,
) -> StageRequest:
    """Train an arm; `budget` is the stage to whose FLOPs the arm's are relative. `config` is all else it depends on."""
    spending = {"budget_flops": round(suite.config.budget(arm) * budget.flops)}
    inputs = {"datasets": datasets, "prices": prices}
    return stage_request(suite, stage, arm, seed, entry=entry, config=config | spending, inputs=inputs)


def arrivals(suite: Suite) -> list[str]:
    """The families in the order in which they come and go; none if all are there all the time."""
    return [get(name).name for name in suite.config.data.train_families] if suite.config.data.arrivals else []


def rival_config(suite: Suite, section: str, arm: str, trial: int | None) -> dict[str, Any]:
    """What a rival depends on, its budget apart: its section of the suite, decoding and routers."""
    return {
        section: suite.config.settings(arm, trial).model_dump(mode="json", exclude={"trials"}),
        "decoding": suite.config.decoding.model_dump(mode="json"),
        "routings": suite.config.trained_routings,
        "arrivals": arrivals(suite),
    }


def matched_inputs(work: Work) -> dict[str, Any]:
    """Arguments of the function that trains a rival and chooses its routes, without its settings, budget and folder."""
    from evolora_core.config import DecodingConfig
    from evolora_core.datasets import read_items
    from evolora_core.pricing import Prices
    from tasks._worker import load_stage_host

    return {
        "host": load_stage_host(work.host),
        "items": read_items(work.inputs["datasets"] / "train.jsonl"),
        "selection": read_items(work.inputs["datasets"] / "selection.jsonl"),
        "calibration": Prices.load(work.inputs["prices"] / "calibration.json"),
        "decoding": DecodingConfig.model_validate(work.config["decoding"]),
        "routings": work.config["routings"],
        "seed": work.seed,
        "progress": work.report,
    }
