"""What closes an attention suite: fits of every condition over its fresh seeds, and the declared contrasts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolora_core.searches.attention.curves import Curve, losses_of, ratios
from evolora_core.searches.attention.known.registry import BASELINE
from evolora_core.searches.attention.scaling.fits import power, straight
from evolora_core.searches.attention.scaling.intervals import finite
from evolora_core.searches.attention.scaling.law import Law
from evolora_core.searches.attention.scaling.losses import cells_of, star
from evolora_core.searches.attention.scaling.predict import predict_gain
from evolora_core.searches.attention.scaling.score import score
from evolora_core.searches.attention.scaling.validation import compare_losses, decide_family

Row = dict[str, Any]
FITS, CONTRASTS = "attention_fits", "attention_contrasts"

# Columns of a fit, unknown where a program has no finite losses, or a single size.
_FITTED = (
    "form", "gain", "lo", "hi", "line_gain", "slope", "slope_se", "intercept", "r2", "floor", "amplitude", "alpha",
    "largest", "largest_lo", "largest_hi",
)  # fmt: skip


def fits(
    curves: Mapping[str, Curve], sizes: Sequence[str], fresh: Sequence[int], run_seed: int, law: Law | None
) -> list[Row]:
    """Rows of the table `attention_fits`: what the fresh seeds of a run seed say of every condition at these sizes."""
    losses = losses_of(curves, sizes, fresh)
    at = star(losses, BASELINE)
    rows = []
    for name, curve in curves.items():
        row: Row = {"arm": name, "run_seed": run_seed, "at_parameters": at, **dict.fromkeys(_FITTED)}
        found = score(losses, name, BASELINE, ratios(curve, curves[BASELINE]))
        if found.curve is not None and len(found.curve) > 1:
            gain, fitted = predict_gain(losses, name, BASELINE, at, law), straight(losses, name)
            row |= {
                "form": gain.form,
                "gain": gain.value,
                "lo": finite(gain.estimate.lo),
                "hi": finite(gain.estimate.hi),
                "line_gain": predict_gain(losses, name, BASELINE, at).value,
                "slope": fitted.slope,
                "slope_se": finite(fitted.se),
                "intercept": fitted.intercept,
                "r2": finite(fitted.r2),
            }
            own = power(cells_of(losses, name), law.floor) if law else None
            if own is not None:
                row |= dict(zip(("floor", "amplitude", "alpha"), (own.floor, *own.law), strict=True))
        if found.curve is not None:
            worse = found.curve[sizes[-1]]
            row |= {"largest": worse.value, "largest_lo": finite(worse.lo), "largest_hi": finite(worse.hi)}
        rows.append(row | {"guards": ", ".join(found.guards)})
    return rows


def contrasts(
    curves: Mapping[tuple[str, int], Curve],
    declared: Sequence[tuple[str, str]],
    size: str,
    fresh: Mapping[int, Sequence[int]],
) -> list[Row]:
    """Rows of the table `attention_contrasts`: the declared pairs at a size, paired by run seed, all at once, since
    Holm needs the whole family. `curves` are by condition and run seed, `fresh` has the training seeds of each.
    """

    def losses(name: str) -> dict[int, Any]:
        """The mean loss of each run seed over its training seeds."""
        return {seed: np.mean([curves[name, seed].mean(size, own) for own in seeds]) for seed, seeds in fresh.items()}

    tests = [compare_losses(a, b, losses(a), losses(b)) for a, b in declared]
    return [
        {
            "a": found.a,
            "b": found.b,
            "size": size,
            "seeds": found.seeds,
            "gain": found.gain,
            "lo": finite(found.lo),
            "hi": finite(found.hi),
            "p": found.p,
            "p_holm": found.p_holm,
            "cohens_d": finite(found.effect),
            "verdict": found.verdict,
            "note": found.note,
        }
        for found in decide_family(tests)
    ]
