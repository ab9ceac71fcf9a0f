"""The worst quarter of runs: what somebody gets who runs once and is unlucky."""

from typing import Any

import numpy as np
import pandas as pd

from evolora_core.engine.rng import stream
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, difference, number, percent
from evolora_core.statistics.inference import RESAMPLES
from evolora_core.statistics.worst_runs import FEWEST, worst_quarter, worst_quarter_interval

SPLIT = "holdout_id"
_RUNS = """
    SELECT condition, seed, avg(correct::INT) AS acc
    FROM evaluations JOIN complete_seeds USING (suite, seed) JOIN suites ON suites.suite = $suite
    WHERE suite = $suite AND split = $split AND arm = condition
    GROUP BY condition, seed, conditions ORDER BY list_position(conditions, condition), seed
"""


def worst_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition, and one per comparison that is declared in distribution under the headline router and has
    FEWEST runs in common; a condition with fewer has none.

    Columns: a, b ("" for a condition alone), runs, mean, lowest and worst (mean of the worst quarter; of a comparison
    the differences) with lo and hi.
    """
    runs = stored.frame(_RUNS, split=SPLIT)
    by_condition = {str(name): own.set_index("seed")["acc"] for name, own in runs.groupby("condition", sort=False)}
    if runs.empty:
        return pd.DataFrame()
    resamples = stored.config["evaluation"].get("bootstrap", RESAMPLES)
    compared = stored.config["evaluation"]["comparisons"]
    declared = [(own["a"], own["b"]) for own in compared if own["split"] == SPLIT and not own.get("routing")]
    pairs = [(name, "") for name in by_condition]
    pairs += [pair for pair in declared if set(pair) <= set(by_condition)]
    rows: list[dict[str, Any]] = []
    for a, b in pairs:
        shared = by_condition[a].index.intersection(by_condition[b or a].index)  # a run may have been too dear for one
        if len(shared) < FEWEST:
            continue
        first = by_condition[a].loc[shared].to_numpy(dtype=np.float64)
        second = by_condition[b].loc[shared].to_numpy(dtype=np.float64) if b else None
        lo, hi = worst_quarter_interval(first, second, stream(0, 0, 0, "bootstrap", "worst", a, b), resamples)
        own = [float(first.mean()), float(first.min()), float(worst_quarter(first))]
        if second is not None:
            own = [x - y for x, y in zip(own, (second.mean(), second.min(), worst_quarter(second)), strict=True)]
        names = ("mean", "lowest", "worst")
        rows.append({"a": a, "b": b, "runs": len(first), **dict(zip(names, own, strict=True)), "lo": lo, "hi": hi})
    return pd.DataFrame(rows)


def worst_table(suite: str, data: pd.DataFrame) -> Table:
    """The worst quarters as a table."""
    columns = [
        Column("condition", lambda r: r["a"], left=True),
        Column("runs", number("runs", "{:d}")),
        Column("mean %", lambda r: percent(r["mean"])),
        Column("lowest run %", lambda r: percent(r["lowest"])),
        Column("worst quarter %", lambda r: percent(r["worst"], r["lo"], r["hi"])),
    ]
    caption = (
        f"{suite}: accuracy in distribution over runs, and of the worst quarter of them, 95 % intervals in brackets"
    )
    return Table("worst_runs", caption, data[data["b"] == ""], columns)


def worst_pairs_table(suite: str, data: pd.DataFrame) -> Table:
    """How much better one condition's worst quarter is than another's."""
    columns = [
        Column("a", lambda r: r["a"], left=True),
        Column("b", lambda r: r["b"], left=True),
        Column("mean of a − b, points", lambda r: f"{100 * r['mean']:+.1f}"),
        Column("worst quarter of a − that of b, points", lambda r: difference(r["worst"], r["lo"], r["hi"])),
    ]
    caption = f"{suite}: worst quarters of runs compared, 95 % intervals in brackets"
    return Table("worst_runs_compared", caption, data[data["b"] != ""], columns)
