"""What `evaluate` says of sizes before it measures them: at which numbers of parameters, and with which intervals. What
it says where a program does not work.
"""

import math
from pathlib import Path

import numpy as np
import pytest

from evolora_core.engine.stage import StageResult, Work
from evolora_core.searches.attention.chosen import leave
from evolora_core.searches.attention.corpus.base import save
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.scaling.law import Law
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.evaluate import Evaluation, make, prediction_rows
from evolora_core.searches.attention.stages.law import LAW as LAW_FILE
from evolora_core.searches.attention.stages.rates import RATES

N = {"xs": 6592, "s": 25472, "m": 84912}
LARGER = {"l": 199936, "xl": 448000}
FLOOR, SCALE, EXPONENT = 1.5, 6.0, 0.2
SEEDS = [1, 2]
LAW = Law(FLOOR, 0.0, 0.0, ("mha", "rope"))


def asked(fresh: int) -> Evaluation:
    """Two sizes are predicted from three."""
    return Evaluation(
        condition="composite",
        trusted=True,
        measured=list(N),
        predicted=list(LARGER),
        selection_seeds=SEEDS,
        fresh_seeds=list(range(100, 100 + fresh)),
        training=Training(),
        bounds=Bounds(),
    )


def loss_at(n: float) -> float:
    """The loss of every program with so many parameters."""
    return float(FLOOR + SCALE * n**-EXPONENT)


def curve(more: float, noise: float = 0.0) -> Curve:
    """A program with `more` times the baseline's parameters, whose only advantage they are."""
    made, random = Curve(), np.random.default_rng(0)
    for size, n in N.items():
        made.n[size], made.flops[size] = round(more * n), 1
        for seed in SEEDS:
            made.texts[size, seed] = loss_at(made.n[size]) + random.normal(0, noise, 30).astype(np.float32)
    return made


def test_a_loss_is_predicted_at_the_program_s_own_parameters_and_a_gain_at_equal_ones() -> None:
    for own in prediction_rows(asked(2), curve(1.1), curve(1.0), LAW, LARGER):
        n = LARGER[own["size"]]
        assert own["parameters"] == pytest.approx(1.1 * n, rel=1e-4)
        assert own["loss"] == pytest.approx(loss_at(1.1 * n), abs=1e-4) and loss_at(n) - own["loss"] > 4e-3
        assert own["gain"] == pytest.approx(0, abs=1e-4)


def test_the_mean_of_fewer_fresh_trainings_is_known_less_well() -> None:
    widths = []
    for fresh in (1, 2, 16):
        rows = prediction_rows(asked(fresh), curve(1.0, 0.05), curve(1.0), LAW, LARGER)
        widths.append([rows[0]["loss_hi"] - rows[0]["loss_lo"], rows[0]["gain_hi"] - rows[0]["gain_lo"]])
    assert (np.diff(widths, axis=0) < 0).all()


def test_a_size_at_which_a_program_does_not_work_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inputs = {name: tmp_path / name for name in ("corpus", "rates", "law", "chosen", "made")}
    for folder in inputs.values():
        folder.mkdir()
    corpus = make_corpus(CorpusSettings(shares={"markov": 1.0}, train=64, held_out=40, context=16), 1)
    save(corpus, inputs["corpus"])
    (inputs["rates"] / RATES).write_text('{"xs": 0.01, "s": 0.01}')
    (inputs["law"] / LAW_FILE).write_text("null")
    source = KNOWN["rope"].source.replace("self.heads = heads", "self.heads = {16: 2}[dim]")
    leave(inputs["chosen"], source, Curve(), "", None)
    training = Training(steps=5, batch=2, warmup=1)
    own = asked(1).model_copy(update={"measured": ["xs"], "predicted": ["s"], "training": training})
    result = StageResult(
        stage="corpus", condition="shared", seed=0, folder="", identity="0", seconds=0, flops=0, summary={}
    )  # fmt: skip
    results = dict.fromkeys(("corpus", "rates"), result)
    found = make(Work(config=own, seed=0, folder=inputs.pop("made"), inputs=inputs, results=results))
    assert found.facts.loss == pytest.approx(math.log(corpus.vocab))
    (told,) = caplog.messages
    assert told.startswith("size s: composite, seed 100: ") and "KeyError: 32" in told and "knows nothing" in told
