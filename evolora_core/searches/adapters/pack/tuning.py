"""What tuning tried, what it chose, and whether the best lies at the edge of what was tried."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, percent, words
from evolora_core.searches.adapters.trials import best_trials

# A trial of a run from before `holdout_acc` was judged on the selection split, and chosen by that.
_TRIALS = """
    SELECT arm AS condition, trial, seed, changes, coalesce(holdout_acc, selection_acc) AS accuracy,
        if(holdout_acc IS NULL AND selection_acc IS NOT NULL, 'selection', 'holdout_id') AS split, flops
    FROM tuning WHERE suite = $suite ORDER BY ALL
"""


def tuning_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per trial in the order of the conditions; empty where nothing was tuned.

    Columns: condition, trial, changes (JSON), split, seed_N for each tuning seed N (a share of right answers to that
    seed's `split`, at a fraction of the budget), accuracy (their mean), flops (of all seeds), chosen, edge (of the
    chosen one: the settings whose lowest or highest value it is, in words).
    """
    answered = stored.frame(_TRIALS)
    best = best_trials(answered[["condition", "trial", "accuracy"]].itertuples(index=False, name=None))
    key = ["condition", "trial", "changes", "split"]
    found = answered.assign(seed="seed_" + answered["seed"].astype(str)).pivot(
        index=key, columns="seed", values="accuracy"
    )
    found = found.join(answered.groupby(key).agg(accuracy=("accuracy", _mean), flops=("flops", "sum"))).reset_index()
    found = stored.by_condition(found)
    found["chosen"] = (found["trial"] == found["condition"].map(best)) & found["accuracy"].notna()
    found["edge"] = ""
    for _, own in found.groupby("condition"):
        chosen = own.index[own["chosen"]]
        if chosen.empty:  # no trial could be run
            continue
        trials = [flat(json.loads(changes)) for changes in own["changes"]]
        found.loc[chosen, "edge"] = edge(trials, flat(json.loads(found.loc[chosen[0], "changes"])))
    return found


def _mean(accuracies: "pd.Series[float]") -> float:
    """NaN where the trial could not be run on one of the seeds."""
    return float(accuracies.mean(skipna=False))


def flat(changes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings with dotted keys."""
    parts = [flat(v, f"{prefix}{k}.") if isinstance(v, Mapping) else {f"{prefix}{k}": v} for k, v in changes.items()]
    return {key: value for part in parts for key, value in part.items()}


def edge(trials: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> str:
    """`lowest learning_rate`, if of all trials the chosen one has the lowest, and others have another; else "".

    Numbers that every trial names are looked at; beyond an edge a better setting may lie that nobody tried.
    """
    found = []
    for key, value in chosen.items():
        named = [trial.get(key) for trial in trials]
        tried = [number for number in named if isinstance(number, int | float) and not isinstance(number, bool)]
        if len(tried) == len(trials) and len(set(tried)) > 1:
            found += [f"{word} {key.rpartition('.')[2]}" for word, end in _ENDS if value == end(tried)]
    return ", ".join(found)


_ENDS = (("lowest", min), ("highest", max))


def tuning_table(suite: str, trials: pd.DataFrame) -> Table:
    """The trials as a table."""
    seeds = [column for column in map(str, trials) if column.startswith("seed_")]
    columns = [
        words("condition"),
        Column("tried", lambda r: _settings(r["changes"]), left=True),
        words("split"),
        *map(_of_seed, seeds),
        *([Column("mean %", lambda r: percent(r["accuracy"]))] if len(seeds) > 1 else []),
        Column("chosen", lambda r: "yes" if r["chosen"] else "", left=True),
        words("at the edge", "edge"),
    ]
    return Table("tuning", f"{suite}: what tuning tried", trials, columns)


def _of_seed(column: str) -> Column:
    return Column(f"{column.replace('_', ' ')} %", lambda r: percent(r[column]))


def _settings(changes: str) -> str:
    return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in flat(json.loads(changes)).items())
