"""Stage `rates`: the learning rate of each size, chosen with the baseline and used by every program alike."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.attention.settings import Budget, Training

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment

RATES = "rates.json"
CHILD = "evolora_core.searches.attention.judging.child"  # what sandboxes load by name
TUNING = 900  # added to the first training seed of a run seed: a seed that is used for nothing else


class Tuning(Strict):
    """What is tried."""

    sizes: list[str]
    training: Training
    minutes: float
    megabytes: int


class Rates(Strict):
    """The chosen rates by size."""

    rates: dict[str, float]


def request(suite: "Suite[AttentionExperiment]", seed: int, *, corpus: StageResult) -> StageRequest:
    """Tune the rates of a run seed."""
    config = suite.config
    own = Tuning(
        sizes=[*config.sizes.measured, *config.sizes.predicted],
        training=config.training,
        minutes=config.budget.minutes,
        megabytes=config.budget.megabytes,
    )
    return stage_request(
        suite, "rates", SHARED, seed, entry=__name__, also=[CHILD], config=own, inputs={"corpus": corpus}
    )


def make(work: Work[Tuning]) -> Made[Rates]:
    """Leaves rates.json and the tables `attention_rates` and `compute`."""
    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.errors import StageError
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
    from evolora_core.searches.attention.panel import Panel, Task, select
    from evolora_core.searches.attention.seeds import STRIDE

    own, meter = work.config, Meter()
    corpus = select(load(work.inputs["corpus"]), "selection")
    budget = Budget(minutes=own.minutes, megabytes=own.megabytes)
    seed, source = STRIDE * work.seed + TUNING, KNOWN[BASELINE].source
    tried: dict[str, dict[float, float]] = {size: {} for size in own.sizes}
    jobs = [Task(source, size, seed, rate) for size in own.sizes for rate in own.training.rates]
    with Panel(corpus, own.training, {}, budget, trusted=True) as panel:
        for number, job in enumerate(jobs if len(own.training.rates) > 1 else []):
            found, rate = panel.measure(job), job.rate or 0.0
            if found.losses is None:
                reason = found.rejection.reason if found.rejection else ""
                raise StageError(f"the baseline cannot be trained at size {job.size} with rate {rate:g}: {reason}")
            tried[job.size][rate] = float(found.losses.mean())
            meter.add("tuning", panel.flops(found, job.size, {}), 0, found.cpu_seconds)
            work.report(number + 1, len(jobs), f"size {job.size}, rate {rate:g}: {tried[job.size][rate]:.3f}")
    chosen = {size: min(own_rates, key=lambda rate: own_rates[rate]) if own_rates else own.training.rates[0]
              for size, own_rates in tried.items()}  # fmt: skip
    (work.folder / RATES).write_text(json.dumps(chosen), encoding="utf-8")
    rows = [
        {"size": size, "rate": rate, "loss": loss, "chosen": rate == chosen[size]}
        for size, losses in tried.items()
        for rate, loss in losses.items()
    ]
    if rows:
        write_table(work.folder, "attention_rates", rows)
        write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), Rates(rates=chosen))


def read_rates(folder: Path) -> dict[str, float]:
    """The rates by size."""
    found: dict[str, float] = json.loads((folder / RATES).read_text(encoding="utf-8"))
    return found


TUNE = Stage("rates", request, make)
