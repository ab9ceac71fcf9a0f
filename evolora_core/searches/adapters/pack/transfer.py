"""Transfer: what an arm gains on families that nobody trained on, beside its gain on the learned ones."""

from typing import Any

import numpy as np
import pandas as pd

from evolora_core.engine.rng import stream
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, difference, words
from evolora_core.searches.adapters.pack.curves import headline
from evolora_core.searches.adapters.pack.plotted import BY_FAMILY
from evolora_core.statistics.inference import RESAMPLES, Items, contrast, hierarchical_bootstrap

UNPROVEN = "no ratio: the gain on learned families may be none"
BARE = "the bare host in every seed"
STILL = "no answer to an unseen family is graded otherwise than the host's: no interval"  # a bootstrap has no width
SPLITS = ("holdout_id", "holdout_ood")  # of learned and of unseen families
Values = tuple[list[np.ndarray], Items]  # of each seed's items, and the items' names where seeds share them

# Of every item, whether the arm or the bare host of the same seed is ahead. Routers by family are left out: they send
# what nobody trained on to the host.
_AHEAD = """
    WITH host AS (SELECT seed, split, task_id, correct FROM evaluations WHERE suite = $suite AND arm = 'frozen'),
    routed AS (
        SELECT *, coalesce(nullif(split_part(arm, ':', 2), ''), $headline) AS routing
        FROM evaluations JOIN complete_seeds USING (suite, seed)
        WHERE suite = $suite AND condition <> 'frozen' AND split IN ('holdout_id', 'holdout_ood')
    )
    SELECT r.condition, r.arm, r.seed, r.split, r.correct::INT - h.correct::INT AS ahead,
        item_key(r.prompt, task_id) AS item
    FROM routed AS r JOIN host AS h USING (seed, split, task_id) JOIN suites ON suites.suite = $suite
    WHERE NOT list_contains($by_family, routing)
    ORDER BY list_position(conditions, r.condition), r.arm <> r.condition, r.arm, r.seed
"""
_BARE = """
    SELECT arm, bool_and(bare = seeds) AS bare FROM bare_host
    WHERE suite = $suite AND split IN ('holdout_id', 'holdout_ood') GROUP BY arm
"""


def transfer_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per arm whose router may ask an adapter for any family; empty where there is none, or no `frozen`.

    Columns: condition, arm, seeds, then learned, unseen and gap (learned less unseen), each with _lo and _hi: gains
    over the host on the same items, shares of the split, means over seeds with 95 % bootstrap intervals over seeds,
    then items; ratio, ratio_lo, ratio_hi: unseen / learned, none where `learned` may be 0; note, which says so.
    """
    asked = stored.frame(_AHEAD, headline=headline(stored.config), by_family=list(BY_FAMILY))
    bare = {str(row.arm): row.bare for row in stored.frame(_BARE).itertuples()}
    resamples, crossed = stored.config["evaluation"].get("bootstrap", RESAMPLES), stored.splits_of_shared_items
    rows = []
    for (condition, arm), own in asked.groupby(["condition", "arm"], sort=False):
        if own["split"].nunique() < 2:
            continue
        learned, unseen = (_by_seed(own[own["split"] == split], split in crossed) for split in SPLITS)
        found = _measured(learned, unseen, resamples)
        note = BARE if bare.get(str(arm)) else UNPROVEN if np.isnan(found["ratio"]) else ""
        if note != BARE and not any(values.any() for values in unseen[0]):
            note = "; ".join(part for part in (note, STILL) if part)
            found |= dict.fromkeys(("unseen_lo", "unseen_hi", "ratio_lo", "ratio_hi"), np.nan)
        rows.append({"condition": condition, "arm": arm, "seeds": own["seed"].nunique(), **found, "note": note})
    return pd.DataFrame(rows)


def _by_seed(rows: pd.DataFrame, crossed: bool) -> Values:
    parts = [own for _, own in rows.groupby("seed")]
    values = [own["ahead"].to_numpy(dtype=np.float64) for own in parts]
    return values, [own["item"].to_numpy(dtype=str) for own in parts] if crossed else None


def _measured(learned: Values, unseen: Values, resamples: int) -> dict[str, float]:
    """Both gains, their gap and their ratio, with intervals, of two splits of the same seeds."""
    found: dict[str, float] = {}
    for name, (own, items) in (("learned", learned), ("unseen", unseen)):
        lo, hi = hierarchical_bootstrap(own, stream(0, 0, 0, "bootstrap", "transfer", name), resamples, items=items)
        found |= {name: float(np.mean([v.mean() for v in own])), f"{name}_lo": lo, f"{name}_hi": hi}
    (first, named), (second, other) = learned, unseen
    both = contrast(first, second, stream(0, 0, 0, "bootstrap", "transfer"), resamples, items=(named, other))
    found |= {"gap": found["learned"] - found["unseen"], "gap_lo": both.difference[0], "gap_hi": both.difference[1]}
    lo, hi = both.ratio or (np.nan, np.nan)
    ratio = found["unseen"] / found["learned"] if both.ratio else np.nan
    return found | {"ratio": ratio, "ratio_lo": lo, "ratio_hi": hi}


def transfer_table(suite: str, data: pd.DataFrame) -> Table:
    """The gains as a table."""
    columns = [
        words("condition"),
        Column("routing", lambda r: r["arm"].partition(":")[2] or "headline", left=True),
        Column("gain on learned families, points", lambda r: _points(r, "learned")),
        Column("gain on unseen families, points", lambda r: _points(r, "unseen")),
        Column("gap, points", lambda r: _points(r, "gap")),
        Column("transfer ratio", _ratio),
        words("note"),
    ]
    return Table("transfer", f"{suite}: gains over the bare host on learned and on unseen families", data, columns)


def _points(row: dict[str, Any], name: str) -> str:
    if row[f"{name}_lo"] is None:
        return f"{100 * row[name]:+.1f}"
    return difference(row[name], row[f"{name}_lo"], row[f"{name}_hi"])


def _ratio(row: dict[str, Any]) -> str:
    if row["ratio"] is None:
        return NONE
    interval = "" if row["ratio_lo"] is None else f" [{row['ratio_lo']:.2f}, {row['ratio_hi']:.2f}]"
    return f"{row['ratio']:.2f}{interval}"
