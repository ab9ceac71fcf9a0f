"""The law is recovered where it holds, and its predictions are judged beside saying "the same as before"."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from searches.merging.small_pool import DOMAINS, PARENTS

from evolora_core.engine.rng import stream
from evolora_core.engine.stage import Work
from evolora_core.engine.tables import read_table
from evolora_core.errors import StageError
from evolora_core.searches.merging.data import Splits
from evolora_core.searches.merging.law import fit, law, subsets
from evolora_core.searches.merging.law_fitting import fit_method
from evolora_core.searches.merging.pool import Pool
from evolora_core.searches.merging.stages import measuring
from evolora_core.searches.merging.stages.law import Merges, make
from evolora_core.searches.merging.stages.law_fit import Fitting
from evolora_core.searches.merging.stages.law_fit import make as make_fit
from evolora_core.searches.merging.weights import Loaded

TRUE = np.log([0.05, 0.2, 0.5, 0.6, 0.3, 0.4])
SIZES, MERGED = np.array([100_000.0, 220_000.0, 500_000.0]), np.arange(1, 10)


def test_every_subset_stands_once() -> None:
    found = subsets(["a", "b", "c", "d"])
    assert len(found) == len(set(found)) == 15 and [len(own) for own in found] == sorted(map(len, found))


def test_a_law_without_noise_is_predicted_beyond_what_was_fitted() -> None:
    size, merged = (own.ravel() for own in np.meshgrid(SIZES, MERGED, indexing="ij"))
    loss = law(TRUE, size, merged)
    small = merged <= 5
    found = fit(size[small], merged[small], loss[small])
    assert found.error < 1e-4
    assert np.abs(found.predict(size[~small], merged[~small]) - loss[~small]).max() < 2e-3


@pytest.mark.parametrize("falls", [True, False])
def test_the_law_is_ahead_only_where_the_number_counts(falls: bool) -> None:
    rng = stream(3, 0, 0, "law")
    rows = [
        {
            "parameters": int(size),
            "merged": int(merged),
            "loss": float(law(TRUE, np.array(size), np.array(merged if falls else 5)) + 0.002 * rng.standard_normal()),
        }
        for size in SIZES
        for merged in MERGED
        for _ in range(6)
    ]
    summary, points = fit_method(rows, SimpleNamespace(fitted=5, first_predicted=7, bootstrap=12), 0)
    assert len(points) == 27 and summary["points"] == 9
    assert summary["law_error"] < summary["same_error"] if falls else summary["same_error"] < 0.002
    assert all(point["predicted_lo"] <= point["predicted_hi"] for point in points)


def test_a_merge_that_gives_no_numbers_has_no_loss_and_the_law_does_without_it(
    pool: Pool, splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three specialists one has diverged: what it is part of cannot be measured."""
    own = pool.models["code"]
    nothing = Loaded(own.config, {name: torch.full_like(own.get(name), float("nan")) for name in own.names})
    diverged = replace(pool, models=pool.models | {"code": nothing})
    monkeypatch.setattr(measuring, "pool_of", lambda work, parents: diverged)
    monkeypatch.setattr(measuring, "read_split", lambda folder, split, domains: splits[split])
    merges = Merges(parents=list(PARENTS), domains=DOMAINS, methods=["linear"])
    make(Work(config=merges, seed=0, folder=tmp_path, inputs={"datasets": tmp_path}))
    rows = read_table(tmp_path, "merge_law")
    assert len(rows) == 7
    assert {row["subset"] for row in rows if row["loss"] is not None} == {"math", "structured", "math,structured"}
    asked = Fitting(fitted=1, first_predicted=2, bootstrap=4)
    fitted = make_fit(Work(config=asked, seed=0, folder=tmp_path, inputs={"law": tmp_path})).facts
    assert np.isfinite(fitted.law["linear"])
    with pytest.raises(StageError, match=r"law: linear: too few merges of [0-9]+ parameters could be measured"):
        asked = Fitting(fitted=2, first_predicted=3, bootstrap=4)
        make_fit(Work(config=asked, seed=0, folder=tmp_path, inputs={"law": tmp_path}))
