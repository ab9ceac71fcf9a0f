"""The last row of a table: what the measured sizes say of one three times as large as the largest."""

import math
from collections.abc import Sequence
from typing import Any

from evolora_core.searches.attention.curves import Curve, losses_of, ratios
from evolora_core.searches.attention.scaling.law import fit_law
from evolora_core.searches.attention.scaling.losses import star
from evolora_core.searches.attention.scaling.score import score

SIZE = "3 N, predicted"  # stands where measured rows name their size
_FEWEST = 3  # sizes that the law needs


def predict(
    curves: dict[str, Curve], against: str, controls: Sequence[str], sizes: Sequence[str], seeds: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """A row for each curve: parameters, loss, gain over `against` with its interval, guards that it fails. None of them
    with fewer than three sizes.

    The floor of the law is fitted on `against` and the controls.
    """
    if len(sizes) < _FEWEST:
        return {}
    losses = losses_of(curves, sizes, seeds, with_texts=True)
    law = fit_law(losses, against, controls)
    rows: dict[str, dict[str, Any]] = {}
    for name, curve in curves.items():
        found = score(losses, name, against, law, ratios(curve, curves[against]))
        lo, hi = found.interval or (None, None)
        itself = name == against
        rows[name] = {
            "size": SIZE,
            "parameters": round(star(losses, against)),
            "loss": found.loss.value if found.loss else None,
            "gain": None if itself else found.score,
            "lo": None if itself else lo,
            "hi": None if itself else hi,
            "note": f"fails {', '.join(found.guards)}" if found.guards else "",
        }
    return rows


def finite(value: float) -> float | None:
    """None for a number that is not known."""
    return value if math.isfinite(value) else None
