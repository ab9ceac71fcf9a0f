"""Models that answer together: programs and seeds differ by their programs alone."""

import json
from pathlib import Path

import numpy as np

from evolora_core.engine.stage import Work
from evolora_core.engine.tables import read_table
from evolora_core.searches.attention.chosen import leave_finalists
from evolora_core.searches.attention.corpus.base import save
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.known.registry import get_known
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.ensemble import ENSEMBLE, Averaging
from evolora_core.searches.attention.stages.rates import RATES


def test_finalists_that_are_one_program_answer_like_its_seeds(tmp_path: Path) -> None:
    """Each program has a training seed of its own, or an average over programs would lack what seeds bring."""
    inputs = {name: tmp_path / name for name in ("corpus", "rates", "chosen", "made")}
    for folder in inputs.values():
        folder.mkdir()
    save(
        make_corpus(CorpusSettings(shares={"markov": 1.0}, train=64, held_out=40, context=16), 1),
        inputs["corpus"],
    )
    (inputs["rates"] / RATES).write_text(json.dumps({"xs": 0.01}), encoding="utf-8")
    leave_finalists(inputs["chosen"], [get_known("rope").source] * 2)
    training, bounds = Training(steps=5, batch=4, warmup=1, rates=[0.01]), Bounds(minutes=1, megabytes=1024)
    own = Averaging(models=2, sizes=["xs"], seeds=[3, 4], training=training, bounds=bounds, trusted=True)
    folder = inputs.pop("made")
    ENSEMBLE.body(Work(config=own, seed=0, folder=folder, inputs=inputs))
    programs, seeds = read_table(folder, "attention_ensembles")
    assert (programs["members"], seeds["members"]) == ("programs", "seeds")
    assert np.isclose(programs["loss"], seeds["loss"], atol=1e-6)
    assert np.isclose(programs["alone"], seeds["alone"], atol=1e-6)
    assert programs["loss"] < programs["alone"] - 1e-4  # two seeds differ
