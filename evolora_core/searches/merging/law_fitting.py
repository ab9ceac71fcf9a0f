"""The law of merging, fitted to the merges of one method, with intervals over the subsets."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.law import fit

NAMES = ("floor", "width_gain", "width_power", "merge_gain", "merge_power", "shift")  # L*, B, β, A, γ, b


class LawSettings(Protocol):
    """Largest subset that is fitted, smallest that is predicted, resamples."""

    @property
    def fitted(self) -> int: ...
    @property
    def first_predicted(self) -> int: ...
    @property
    def bootstrap(self) -> int: ...


def fit_method(
    rows: Sequence[Mapping[str, Any]], asked: LawSettings, seed: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what was fitted, a row for each base size and number of merged specialists) from rows of `merge_law` of one
    method. Intervals are of a bootstrap over the subsets of each size, the whole fit repeated.
    """
    cells: dict[tuple[int, int], np.ndarray] = {}
    for key in sorted({(row["parameters"], row["merged"]) for row in rows}):
        cells[key] = np.array([row["loss"] for row in rows if (row["parameters"], row["merged"]) == key])
    means = {key: float(values.mean()) for key, values in cells.items()}
    found = _predicted(means, asked)
    rng = stream(seed, 0, 0, "merge.law")
    drawn = []
    for _ in range(asked.bootstrap):
        again = {key: float(rng.choice(own, len(own)).mean()) for key, own in cells.items()}
        drawn.append(list(_predicted(again, asked)[0].values()))
    lo, hi = np.quantile(drawn, [0.025, 0.975], axis=0)
    predictions, fitted = found
    points = [
        {
            "parameters": size,
            "merged": merged,
            "subsets": len(cells[size, merged]),
            "loss": means[size, merged],
            "predicted": predictions[size, merged],
            "predicted_lo": float(lo[place]),
            "predicted_hi": float(hi[place]),
            "same_as_before": means[size, min(merged, asked.fitted)],
            "fitted": merged <= asked.fitted,
        }
        for place, (size, merged) in enumerate(cells)
    ]
    judged = [point for point in points if point["merged"] >= asked.first_predicted]
    summary = dict(zip(NAMES, map(float, fitted.parameters), strict=True)) | {
        "fit_error": fitted.error,
        "law_error": float(np.mean([abs(point["predicted"] - point["loss"]) for point in judged])),
        "same_error": float(np.mean([abs(point["same_as_before"] - point["loss"]) for point in judged])),
        "points": len(judged),
    }
    return summary, points


def _predicted(means: Mapping[tuple[int, int], float], asked: LawSettings) -> tuple[dict[tuple[int, int], float], Any]:
    """Losses that a fit on the small subsets gives for all, and the fit."""
    known = [key for key in means if key[1] <= asked.fitted]
    size, merged = np.array(known, dtype=np.float64).T
    own = fit(size, merged, np.array([means[key] for key in known]))
    everything = np.array(list(means), dtype=np.float64)
    return dict(zip(means, own.predict(everything[:, 0], everything[:, 1]).tolist(), strict=True)), own
