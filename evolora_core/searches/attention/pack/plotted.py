"""Rows for the plots of an attention suite's pack.

Intervals are t intervals of 95 % over run seeds. Of a single run seed they are over its training seeds, and of a single
training seed there is none.
"""

import numpy as np
import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.searches.attention.known.registry import BASELINE
from evolora_core.searches.attention.scaling.intervals import of_crossed

_FRESH = """
    SELECT condition AS arm, run_seed, l.seed, size, any_value(parameters) AS parameters, avg(loss) AS loss
    FROM attention_losses AS l JOIN complete_seeds AS done ON done.suite = l.suite AND done.seed = l.run_seed
    WHERE l.suite = $suite AND stage = 'evaluate' GROUP BY ALL ORDER BY arm, parameters, run_seed, l.seed
"""
_PREDICTED = """
    SELECT arm, size, avg(gain) AS predicted, avg(gain_lo) AS predicted_lo, avg(gain_hi) AS predicted_hi
    FROM attention_prediction JOIN complete_seeds USING (suite, seed) WHERE suite = $suite GROUP BY ALL ORDER BY ALL
"""
_PROGRESS = """
    SELECT condition AS arm, c.seed, c.candidate + 1 AS programs, sum(flops) OVER run AS flops,
        sum(coalesce(seconds, 0)) OVER run AS seconds, c.score, max(c.score) FILTER (fresh) OVER run AS best
    FROM candidate AS c JOIN complete_seeds USING (suite, seed)
    JOIN attention_program AS p ON p.run_id = c.run_id AND p.candidate = c.candidate
    WHERE c.suite = $suite WINDOW run AS (PARTITION BY c.run_id ORDER BY c.candidate)
    ORDER BY arm, c.seed, c.candidate
"""


def fresh(stored: StoredSuite) -> pd.DataFrame:
    """Losses on fresh seeds and unseen texts: arm, run_seed, seed (of training), size, parameters, loss (nats)."""
    return stored.frame(_FRESH)


def paired(stored: StoredSuite) -> pd.DataFrame:
    """Gains over the baseline (nats): arm, run_seed, seed, size, parameters (of the baseline), gain."""
    rows = fresh(stored)
    plain = rows[rows["arm"] == BASELINE].drop(columns="arm").rename(columns={"loss": "plain"})
    both = rows[rows["arm"] != BASELINE].drop(columns="parameters").merge(plain, on=["run_seed", "seed", "size"])
    both = both.assign(gain=both["plain"] - both["loss"]).drop(columns=["plain", "loss"])
    return both.sort_values(["arm", "parameters", "run_seed", "seed"], ignore_index=True)


def losses(stored: StoredSuite) -> pd.DataFrame:
    """Mean loss of each arm at each size with its interval; parameters are the arm's own."""
    return _spread(fresh(stored), "loss")


def gains(stored: StoredSuite) -> pd.DataFrame:
    """Gain over the baseline of each arm at each size with its interval, paired by run seed and training seed."""
    return _spread(paired(stored), "gain")


def judged(stored: StoredSuite) -> pd.DataFrame:
    """Gain of each arm at the largest size, the best first, and what was predicted (over run seeds: the means of the
    predictions and of the ends of their intervals).
    """
    measured = gains(stored)
    if measured.empty:
        return measured
    largest = measured.sort_values("parameters")["size"].iloc[-1]
    rows = measured[measured["size"] == largest].merge(stored.frame(_PREDICTED), on=["arm", "size"], how="left")
    rows = rows.sort_values(["gain", "arm"], ascending=[False, True], ignore_index=True)
    typed: pd.DataFrame = rows.astype(dict.fromkeys(("predicted", "predicted_lo", "predicted_hi"), "float64"))
    return typed


def foretold(stored: StoredSuite) -> pd.DataFrame:
    """The same where anything was predicted; without predictions there is nothing to hold the gains against."""
    rows = judged(stored)
    return rows if rows.empty or rows["predicted"].notna().any() else rows.iloc[:0]


def progress(stored: StoredSuite) -> pd.DataFrame:
    """Score of every program in the order in which it was tried, the best so far, and what the search had taken by
    then: FLOPs and processor seconds, the further seeds of finalists apart.
    """
    return stored.frame(_PROGRESS)


def _spread(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Mean and interval (lo, hi; NaN where there is none) of a value by arm and size."""
    found = []
    for (arm, size), own in rows.groupby(["arm", "size"], sort=False):
        runs = own.groupby("run_seed")[value].mean()
        mean = of_crossed((runs if len(runs) > 1 else own[value]).to_numpy(dtype=np.float64))
        found.append(
            {
                "arm": arm, "size": size, "parameters": int(own["parameters"].max()), "run_seeds": len(runs),
                "trained": len(own), value: mean.value, "lo": mean.lo, "hi": mean.hi,
            }
        )  # fmt: skip
    names = ["arm", "size", "parameters", "run_seeds", "trained", value, "lo", "hi"]
    return pd.DataFrame(found, columns=names)
