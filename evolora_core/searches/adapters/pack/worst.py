"""The worst quarter of runs: what somebody gets who runs once and is unlucky."""

from typing import Any

import numpy as np
import pandas as pd

from evolora_core.engine.rng import stream
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, difference, number, percent, words
from evolora_core.searches.adapters.pack.curves import headline
from evolora_core.statistics.inference import RESAMPLES
from evolora_core.statistics.worst_runs import FEWEST, worst_quarter, worst_quarter_interval

SPLIT = "holdout_id"
HOST = "frozen"
_RUNS = """
    SELECT condition, seed, avg(correct::INT) AS acc
    FROM evaluations JOIN complete_seeds USING (suite, seed) JOIN suites ON suites.suite = $suite
    WHERE suite = $suite AND split = $split AND arm = condition
    GROUP BY condition, seed, conditions ORDER BY list_position(conditions, condition), seed
"""
_NOT_RUN = "SELECT condition, seed FROM not_run JOIN complete_seeds USING (suite, seed) WHERE suite = $suite"


def worst_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition with FEWEST runs.

    Columns: a (the condition), runs, mean, lowest and worst (mean of the worst quarter).
    """
    return pd.DataFrame(
        [
            {
                "a": name,
                "runs": len(own),
                "mean": own.mean(),
                "lowest": own.min(),
                "worst": worst_quarter(own.to_numpy()),
            }
            for name, own in _runs(stored).items()
            if len(own) >= FEWEST
        ]
    )


def worst_pairs_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per comparison that is declared in distribution under the headline router and has FEWEST runs in common.

    Columns: a, b, runs, and of mean, lowest and worst the differences, the last with lo and hi.
    """
    runs, resamples = _runs(stored), stored.config["evaluation"].get("bootstrap", RESAMPLES)
    plain = (None, headline(stored.config))
    rows: list[dict[str, Any]] = []
    for compared in stored.config["evaluation"]["comparisons"]:
        a, b = compared["a"], compared["b"]
        if compared["split"] != SPLIT or compared.get("routing") not in plain or not {a, b} <= runs.keys():
            continue
        shared = runs[a].index.intersection(runs[b].index)
        if len(shared) < FEWEST:
            continue
        first, second = (runs[own].loc[shared].to_numpy(dtype=np.float64) for own in (a, b))
        lo, hi = worst_quarter_interval(first, second, stream(0, 0, 0, "bootstrap", "worst", a, b), resamples)
        rows.append(
            {
                "a": a,
                "b": b,
                "runs": len(shared),
                "mean": first.mean() - second.mean(),
                "lowest": first.min() - second.min(),
                "worst": float(worst_quarter(first) - worst_quarter(second)),
                "lo": lo,
                "hi": hi,
            }
        )
    return pd.DataFrame(rows)


def _runs(stored: StoredSuite) -> dict[str, pd.Series]:
    """The accuracy of each run, by condition and seed. Who could not be run with a seed, as where the budget did not
    pay for a generation, is left with the bare host: without such runs a quarter would be of the lucky seeds alone.
    Where a suite has no bare host, who could not be run with each seed is left out.
    """
    runs = stored.frame(_RUNS, split=SPLIT)
    found: dict[str, pd.Series] = {
        str(name): own.set_index("seed")["acc"] for name, own in runs.groupby("condition", sort=False)
    }
    for condition, absent in stored.frame(_NOT_RUN).groupby("condition"):
        own = found.pop(str(condition), None)
        if HOST in found:
            bare = found[HOST].reindex(absent["seed"]).dropna()
            found[str(condition)] = pd.concat([own, bare]).sort_index()
    return {name: found[name] for name in stored.config["conditions"] if name in found}


def worst_table(suite: str, data: pd.DataFrame) -> Table:
    """The worst quarters as a table."""
    columns = [
        words("condition", "a"),
        Column("runs", number("runs", "{:d}")),
        Column("mean %", lambda r: percent(r["mean"])),
        Column("lowest run %", lambda r: percent(r["lowest"])),
        Column("worst quarter %", lambda r: percent(r["worst"])),
    ]
    return Table(
        "worst_runs", f"{suite}: accuracy in distribution over runs, and of the worst quarter of them", data, columns
    )


def worst_pairs_table(suite: str, data: pd.DataFrame) -> Table:
    """How much better one condition's worst quarter is than another's."""
    columns = [
        words("a"),
        words("b"),
        Column("runs", number("runs", "{:d}")),
        Column("mean of a − b, points", lambda r: f"{100 * r['mean']:+.1f}"),
        Column("worst quarter of a − that of b, points", lambda r: difference(r["worst"], r["lo"], r["hi"])),
    ]
    caption = f"{suite}: worst quarters of runs compared, 95 % intervals in brackets"
    return Table("worst_runs_compared", caption, data, columns)
