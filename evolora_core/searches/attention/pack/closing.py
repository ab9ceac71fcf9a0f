"""Fits and contrasts once more, from the losses that a store or a pack has."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import rows_of
from evolora_core.searches.attention.comparing import CONTRASTS, FITS, contrasts, fits
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.scaling.law import Law
from evolora_core.searches.attention.seeds import fresh_seeds
from evolora_core.statistics.comparisons import refuse_unlike

KEYS: Mapping[str, tuple[str, ...]] = {FITS: ("arm", "run_seed"), CONTRASTS: ("a", "b")}

_LOSSES = """
    SELECT condition, run_seed, l.seed, size, parameters, flops, seconds, loss
    FROM attention_losses AS l JOIN complete_seeds AS done ON done.suite = l.suite AND done.seed = l.run_seed
    WHERE l.suite = $suite AND split = 'test' AND stage = 'evaluate'
"""
_LAWS = "SELECT seed, floor, floor_se, bend, programs FROM attention_law WHERE suite = $suite"


def closing(stored: StoredSuite) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables `attention_fits` and `attention_contrasts`, of the run seeds that are complete. StageError
    where conditions were not measured alike.
    """
    config = stored.config
    measured, predicted = (config["sizes"][key] for key in ("measured", "predicted"))
    fresh = {seed: fresh_seeds(seed, config["evaluation"]["seeds"]) for seed in stored.seeds}
    laws = {row["seed"]: _law(row) for row in rows_of(stored.frame(_LAWS))}
    curves: dict[tuple[str, int], Curve] = {}
    for row in rows_of(stored.frame(_LOSSES)):
        curve, cell = curves.setdefault((row["condition"], row["run_seed"]), Curve()), (row["size"], row["seed"])
        curve.n[row["size"]], curve.flops[row["size"]] = row["parameters"], row["flops"]
        curve.texts[cell] = np.array([row["loss"]])  # the mean of all texts, which is all that is asked of it
        curve.seconds[cell] = row["seconds"]
    declared = [(pair["a"], pair["b"]) for pair in config["evaluation"]["contrasts"]]
    for a, b in declared:
        refuse_unlike(stored.facts, a, b, stored.seeds)
    found = [
        row
        for seed in stored.seeds
        for row in fits(
            {name: curves[name, seed] for name in config["conditions"]}, measured, fresh[seed], seed, laws.get(seed)
        )
    ]
    return {FITS: found, CONTRASTS: contrasts(curves, declared, [*measured, *predicted][-1], fresh)}


def _law(row: Mapping[str, Any]) -> Law:
    """A law as it was fitted. A store keeps NaN, the standard error of a floor from one seed, as NULL."""
    error = float("nan") if row["floor_se"] is None else row["floor_se"]
    return Law(row["floor"], error, row["bend"], tuple(row["programs"].split(",")))
