"""The last row of a table: what the measured sizes say of one three times as large as the largest."""

from collections.abc import Sequence
from typing import Any

from evolora_core.searches.attention.curves import Curve, losses_of, ratios
from evolora_core.searches.attention.scaling.intervals import finite
from evolora_core.searches.attention.scaling.law import fit_law
from evolora_core.searches.attention.scaling.losses import star
from evolora_core.searches.attention.scaling.predict import predict_gain, predict_loss
from evolora_core.searches.attention.scaling.score import score

SIZE = "3 N, predicted"  # stands where measured rows name their size
_FEWEST = 3  # sizes that the law needs


def predict(
    curves: dict[str, Curve], against: str, controls: Sequence[str], sizes: Sequence[str], seeds: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """A row for each curve: parameters, loss, gain over `against` with its interval, guards that it fails. None of them
    with fewer than three sizes.

    A curve of which a training was refused is left out, since its loss stands for nothing that was learned; without
    `against` there is no row at all. The floor of the law is fitted on `against` and the controls.
    """
    sound = {name: curve for name, curve in curves.items() if not curve.refused}
    if len(sizes) < _FEWEST or against not in sound:
        return {}
    losses = losses_of(sound, sizes, seeds, with_texts=True)
    law, at = fit_law(losses, against, [name for name in controls if name in sound]), star(losses, against)
    rows: dict[str, dict[str, Any]] = {}
    for name, curve in sound.items():
        found = score(losses, name, against, ratios(curve, curves[against]))
        row: dict[str, Any] = {
            "size": SIZE,
            "parameters": round(at),
            "loss": None,
            "gain": None,
            "lo": None,
            "hi": None,
        }
        if found.curve is not None:
            row["loss"] = predict_loss(losses, name, at, law).value
        if found.curve is not None and name != against:
            gain = predict_gain(losses, name, against, at, law).estimate
            row |= {"gain": gain.value, "lo": finite(gain.lo), "hi": finite(gain.hi)}
        rows[name] = row | {"note": f"fails {', '.join(found.guards)}" if found.guards else ""}
    return rows
