"""Stage `price`: what an answer of the bare host costs, how often it is right, and what fits into memory; fails early
and says why.
"""

from evolora_core.config import EcologyConfig
from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task


def stage_name(suite: Suite, arm: str) -> str:
    """The stage that prices the answers of an arm: `price`, or one of its own for an evolution that practises at
    another temperature than the ecology of the suite, whose bare host is then another.
    """
    settings, usual = suite.config.settings(arm), suite.config.ecology.practice_temperature
    own = isinstance(settings, EcologyConfig) and settings.practice_temperature != usual
    return f"price-{arm}" if own else "price"


def request(suite: Suite, arm: str, seed: int, *, datasets: StageResult) -> StageRequest:
    """Price answers to the training set of `seed`, asked as an arm asks."""
    stage = stage_name(suite, arm)
    settings = suite.config.ecology if stage == "price" else suite.config.settings(arm)
    ecology = settings.model_dump(mode="json", exclude={"generations", "trials"})
    config = {"ecology": ecology, "decoding": suite.config.decoding.model_dump(mode="json")}
    inputs = {"datasets": datasets}
    return stage_request(suite, stage, "shared", seed, entry=__name__, config=config, inputs=inputs)


def make(work: Work) -> Made:
    """Leaves calibration.json and the tables `calibration` and `compute`."""
    from evolora_core.config import DecodingConfig
    from evolora_core.datasets import read_items
    from evolora_core.ecology.practice import practice_of
    from evolora_core.meter import Meter
    from evolora_core.pricing import price as ask_prices
    from tasks._tables import write_table
    from tasks._worker import load_stage_host

    calibration = ask_prices(
        load_stage_host(work.host),
        read_items(work.inputs["datasets"] / "train.jsonl"),
        practice_of(EcologyConfig.model_validate(work.config["ecology"])),
        DecodingConfig.model_validate(work.config["decoding"]),
        work.seed,
    )
    meter = Meter.from_state(calibration.meter)
    calibration.save(work.folder / "calibration.json")
    write_table(work.folder, "calibration", calibration.rows())
    write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), {"unit_flops": calibration.unit_flops, "rho": calibration.rho})


price = stage_task("price", request, make)
