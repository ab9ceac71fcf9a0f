"""The law is recovered where it holds, and its predictions are judged beside saying "the same as before"."""

from types import SimpleNamespace

import numpy as np
import pytest

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.law import fit, law, subsets
from evolora_core.searches.merging.law_fitting import fit_method

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
