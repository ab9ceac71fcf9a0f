"""Stage `evaluate`: what a condition chose, on texts, training seeds and sizes that selection never saw.

Sizes that only stand here are predicted first, from what the selection measured; the prediction is a file before the
first model is trained.
"""

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue

from evolora_core.engine.stage import JUDGED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.loaded import LOADED

if TYPE_CHECKING:
    from evolora_core.searches.attention.chosen import Chosen
    from evolora_core.searches.attention.curves import Curve
    from evolora_core.searches.attention.experiment import AttentionExperiment
    from evolora_core.searches.attention.scaling.law import Law

log = logging.getLogger("evolora_core.stages")

PREDICTIONS = "predictions.json"


class Evaluation(Strict):
    """What is asked of a condition."""

    condition: str
    trusted: bool
    measured: list[str]
    predicted: list[str]
    selection_seeds: list[int]
    fresh_seeds: list[int]
    training: Training
    bounds: Bounds


class Evaluated(BaseModel):
    """The mean loss at the largest size, and what two evaluations must share to be compared, their code apart."""

    loss: float
    comparable: dict[str, JsonValue]


def request(
    suite: "Suite[AttentionExperiment]",
    condition: str,
    seed: int,
    *,
    corpus: StageResult,
    rates: StageResult,
    law: StageResult,
    baseline: StageResult,
    chosen: StageResult,
) -> StageRequest:
    """Judge a condition."""
    from evolora_core.searches.attention.seeds import fresh_seeds, selection_seeds
    from evolora_core.searches.attention.sources import trusted

    config = suite.config
    own = Evaluation(
        condition=condition,
        trusted=config.trusted(condition) if config.strategy(condition) else trusted(condition),
        measured=config.sizes.measured,
        predicted=config.sizes.predicted,
        selection_seeds=selection_seeds(seed, config.budget.seeds + config.budget.finalist_seeds),
        fresh_seeds=fresh_seeds(seed, config.evaluation.seeds),
        training=config.training,
        bounds=config.budget.bounds,
    )
    inputs = {"corpus": corpus, "rates": rates, "law": law, "baseline": baseline, "chosen": chosen}
    return stage_request(suite, JUDGED, condition, seed, entry=__name__, also=LOADED, config=own, inputs=inputs)


def make(work: Work[Evaluation]) -> Made[Evaluated]:
    """Leaves predictions.json, the curve on the test texts, law.json as it was given, and the tables
    `attention_predictions`, `attention_losses` and `compute`.
    """
    import shutil

    import numpy as np

    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.chosen import CURVE, read_chosen
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.curves import Curve, save_curve
    from evolora_core.searches.attention.measuring import loss_rows, measure_all, refusals
    from evolora_core.searches.attention.panel import Panel, select
    from evolora_core.searches.attention.stages.law import LAW
    from evolora_core.searches.attention.stages.rates import read_rates

    own, meter = work.config, Meter()
    chosen = read_chosen(work.inputs["chosen"])
    corpus, rates = load(work.inputs["corpus"]), read_rates(work.inputs["rates"])
    predictions = _predict(work, chosen, corpus.vocab)
    (work.folder / PREDICTIONS).write_text(json.dumps(predictions), encoding="utf-8")
    with Panel(select(corpus, "test"), own.training, rates, own.bounds, trusted=own.trusted, keep=work.folder) as panel:
        sizes = [*own.measured, *own.predicted]
        curve = measure_all(
            panel, own.condition, chosen.source, sizes, own.fresh_seeds, meter, "evaluation", work.report, Curve()
        )
    for size in sizes:
        for remark in refusals({own.condition: curve}, size):
            log.warning("size %s: %s", size, remark)
    save_curve(curve, work.folder / CURVE)
    shutil.copyfile(work.inputs["law"] / LAW, work.folder / LAW)
    if predictions:
        write_table(work.folder, "attention_predictions", predictions)
    write_table(work.folder, "attention_losses", loss_rows(own.condition, curve, "test"))
    write_table(work.folder, "compute", meter.rows())
    comparable: dict[str, JsonValue] = {
        "corpus": work.results["corpus"].identity,
        "rates": work.results["rates"].identity,
        "training": own.training.model_dump(mode="json"),
        "sizes": list(sizes),
        "seeds": list(own.fresh_seeds),
    }
    loss = float(np.mean([curve.mean(sizes[-1], seed) for seed in own.fresh_seeds]))
    return Made(meter.total(), Evaluated(loss=loss, comparable=comparable))


def _predict(work: Work[Evaluation], chosen: "Chosen", vocab: int) -> list[dict[str, Any]]:
    """What the selection's measurements say of the sizes that only this stage measures."""
    from evolora_core.searches.attention.chosen import read_chosen
    from evolora_core.searches.attention.host.model import build
    from evolora_core.searches.attention.host.sizes import SIZES, non_embedding
    from evolora_core.searches.attention.judging.loading import load_program
    from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
    from evolora_core.searches.attention.stages.law import read_law

    own = work.config
    law = read_law(work.inputs["law"])
    if law is None or not own.predicted or len(chosen.curve.n) < 2:
        return []  # one size has no slope: what was chosen was refused at the others
    attention = load_program(KNOWN[BASELINE].source)
    plain_n = {size: non_embedding(build(attention, SIZES[size], vocab, 0)) for size in own.predicted}
    return prediction_rows(own, chosen.curve, read_chosen(work.inputs["baseline"]).curve, law, plain_n)


def prediction_rows(
    own: Evaluation, chosen: "Curve", plain: "Curve", law: "Law", plain_n: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Rows of the table `attention_predictions`, one for each predicted size.

    chosen, plain  what the selection measured of the condition's program and of the baseline
    plain_n        the baseline's parameters without the embedding, by predicted size

    The loss (nats) is that of the program at its own parameters, which it has as many times the baseline's as at the
    largest size measured: a program of others is not built here. The gain is at the baseline's parameters for both.
    """
    from evolora_core.searches.attention.curves import losses_of
    from evolora_core.searches.attention.known.registry import BASELINE
    from evolora_core.searches.attention.scaling.intervals import finite
    from evolora_core.searches.attention.scaling.predict import predict_gain, predict_loss

    curves = {BASELINE: plain, "own": chosen}
    losses = losses_of(curves, own.measured, own.selection_seeds, with_texts=True)  # the test has others
    largest, fresh = own.measured[-1], len(own.fresh_seeds)
    rows = []
    for size in own.predicted:
        n = plain_n[size] * chosen.n[largest] / plain.n[largest]
        loss = predict_loss(losses, "own", n, law, fresh=fresh).estimate
        gain = predict_gain(losses, "own", BASELINE, plain_n[size], law, fresh=fresh).estimate
        rows.append(
            {
                "size": size,
                "parameters": round(n),
                "loss": loss.value,
                "loss_lo": finite(loss.lo),
                "loss_hi": finite(loss.hi),
                "gain": gain.value,
                "gain_lo": finite(gain.lo),
                "gain_hi": finite(gain.hi),
            }
        )
    return rows


EVALUATE = Stage(JUDGED, request, make)
