"""Stage `rates`: the learning rate of each size, chosen with the baseline and used by every program alike."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.loaded import LOADED

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment

RATES = "rates.json"


class Tuning(Strict):
    """What is tried."""

    sizes: list[str]
    training: Training
    bounds: Bounds


class Rates(Strict):
    """The chosen rates by size."""

    rates: dict[str, float]


def request(suite: "Suite[AttentionExperiment]", seed: int, *, corpus: StageResult) -> StageRequest:
    """Tune the rates of a run seed."""
    config = suite.config
    own = Tuning(
        sizes=[*config.sizes.measured, *config.sizes.predicted],
        training=config.training,
        bounds=config.budget.bounds,
    )
    return stage_request(
        suite, "rates", SHARED, seed, entry=__name__, also=LOADED, config=own, inputs={"corpus": corpus}
    )


def make(work: Work[Tuning]) -> Made[Rates]:
    """Leaves rates.json and the tables `attention_rates` and `compute`."""
    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
    from evolora_core.searches.attention.panel import Panel, select
    from evolora_core.searches.attention.tuning import tune

    own, meter = work.config, Meter()
    corpus = select(load(work.inputs["corpus"]), "selection")
    with Panel(corpus, own.training, {}, own.bounds, trusted=True, keep=work.folder) as panel:
        found = tune(panel, "the baseline", KNOWN[BASELINE].source, own.sizes, work.seed, meter, work.report)
    (work.folder / RATES).write_text(json.dumps(found.rates), encoding="utf-8")
    rows = [
        {"size": size, "rate": rate, "loss": loss if loss < math.inf else None, "chosen": rate == found.rates[size]}
        for size, losses in found.tried.items()
        for rate, loss in losses.items()
    ]
    if rows:
        write_table(work.folder, "attention_rates", rows)
        write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), Rates(rates=found.rates))


def read_rates(folder: Path) -> dict[str, float]:
    """The rates by size."""
    found: dict[str, float] = json.loads((folder / RATES).read_text(encoding="utf-8"))
    return found


TUNE = Stage("rates", request, make)
