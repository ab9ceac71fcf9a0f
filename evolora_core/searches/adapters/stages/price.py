"""Stage `price`: what an answer of the bare host costs, how often it is right, and what fits into memory; fails early
and says why. As the first stage with the host it also tells of right answers that are longer than an answer may be.
"""

from typing import TYPE_CHECKING, cast

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.language.decoding import DecodingConfig
from evolora_core.lora.answering.practice import Practice

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig
    from evolora_core.searches.adapters.settings.ecology import EcologySettings


class Pricing(Strict):
    """What prices depend on: how answers are asked for, and how large a population's passes are."""

    decoding: DecodingConfig
    practice: Practice


class Priced(BaseModel):
    """FLOPs of a unit of energy, and the units that a right answer pays."""

    unit_flops: float
    rho: float


def stage_name(suite: "Suite[SuiteConfig]", arm: str) -> str:
    """The stage that prices the answers of an arm: `price`, or one of its own for an evolution that practises at
    another temperature than the section `ecology`, whose bare host is then another.
    """
    evolved = suite.config.kind(arm).section == "ecology"
    own = evolved and _settings(suite, arm).practice_temperature != suite.config.ecology.practice_temperature
    return f"price-{arm}" if own else "price"


def _settings(suite: "Suite[SuiteConfig]", arm: str) -> "EcologySettings":
    """Settings of an evolution. Their class is not imported here: prices depend only on its practice."""
    return cast("EcologySettings", suite.config.settings(arm))


def request(suite: "Suite[SuiteConfig]", arm: str, seed: int, *, datasets: StageResult) -> StageRequest:
    """Price answers to the training set of `seed`, asked as an arm asks."""
    stage = stage_name(suite, arm)
    settings = suite.config.ecology if stage == "price" else _settings(suite, arm)
    return stage_request(
        suite,
        stage,
        SHARED,
        seed,
        entry=__name__,
        also=suite.config.modules_of(suite.config.data.train_families),
        config=Pricing(decoding=suite.config.decoding, practice=settings.practice),
        inputs={"datasets": datasets},
    )


def make(work: Work[Pricing]) -> Made[Priced]:
    """Leaves calibration.json and the tables `calibration` and `compute`."""
    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.language.datasets import read_items
    from evolora_core.language.hosts.kept import stage_host
    from evolora_core.language.tasks.own import read_definitions
    from evolora_core.lora.answering.longest import longest_right_answer
    from evolora_core.lora.answering.pricing import price

    host, decoding, folder = stage_host(work), work.config.decoding, work.inputs["datasets"]
    if own := read_definitions(folder):
        asked = [item for file in sorted(folder.glob("*.jsonl")) for item in read_items(file)]
        for task in own:
            items = [item for item in asked if item.family == task.name]
            longest_right_answer(host, task.name, items, task.verifier, decoding)
    items = read_items(folder / "train.jsonl")
    prices = price(host, items, work.config.practice, decoding, work.seed)
    meter = Meter.from_state(prices.meter)
    prices.save(work.folder / "calibration.json")
    write_table(work.folder, "calibration", prices.rows())
    write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), Priced(unit_flops=prices.unit_flops, rho=prices.rho))


PRICE = Stage("price", request, make)
