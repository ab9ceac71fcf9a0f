"""Learning curves: the conditions of a suite that differ in their budget alone, over the FLOPs that they spent."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from evolora_core.language.splits import TITLES
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, number, percent, words
from evolora_core.searches.adapters.arms.kinds import KINDS

# Accuracies of the headline on holdout_id, and on retention under the router `single`, where one adapter answers all.
_CURVE = """
    WITH shown AS (
        SELECT condition,
            max(acc) FILTER (WHERE id) AS id_acc, max(lo) FILTER (WHERE id) AS id_lo,
            max(hi) FILTER (WHERE id) AS id_hi,
            max(acc) FILTER (WHERE kept) AS retention_acc, max(lo) FILTER (WHERE kept) AS retention_lo,
            max(hi) FILTER (WHERE kept) AS retention_hi
        FROM (
            SELECT *, split = 'holdout_id' AND arm = condition AS id, split = 'retention' AND (
                arm = condition || ':single' OR arm = condition AND (condition = 'frozen' OR $headline = 'single')
            ) AS kept
            FROM accuracy WHERE suite = $suite AND family = '*'
        )
        GROUP BY condition
    )
    SELECT condition, seeds, total_flops, shown.* EXCLUDE condition
    FROM paper_table JOIN shown USING (condition) WHERE suite = $suite
"""


def curves(config: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Condition -> (its curve, its budget relative to the ecology's), of a resolved suite.

    A curve is two or more conditions of one kind with the same changes and different budgets; the learning rates that
    their tuning tries may differ, since a longer run wants lower ones. It is called like the one whose budget is 1, or
    like the first.
    """
    arms = config.get("arms", {})
    groups: dict[str, dict[str, float]] = {}
    for condition in config["conditions"]:
        arm = arms.get(condition, {"like": condition})
        section = config.get(KINDS[arm["like"]].section) or {}
        changes = {"trials": section.get("trials", [])} | arm.get("changes", {})
        changes["trials"] = [rest for rest in map(_without_rates, changes["trials"]) if rest]
        key = json.dumps([arm["like"], changes], sort_keys=True)
        groups.setdefault(key, {})[condition] = arm.get("budget", 1.0)
    found: dict[str, tuple[str, float]] = {}
    for budgets in groups.values():
        if len(set(budgets.values())) > 1:
            name = min(budgets, key=lambda condition: budgets[condition] != 1.0)
            found |= {condition: (name, budgets[condition]) for condition in sorted(budgets, key=budgets.__getitem__)}
    return found


def headline(config: Mapping[str, Any]) -> str:
    """The routing whose accuracies are the headline."""
    text: str = config["evaluation"]["routings"][0]
    return text


def _without_rates(trial: Mapping[str, Any]) -> dict[str, Any]:
    """What a trial changes apart from learning rates."""
    nested = {key: _without_rates(value) if isinstance(value, Mapping) else value for key, value in trial.items()}
    return {key: value for key, value in nested.items() if key != "learning_rate" and value != {}}


def curve_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition of a curve, by rising budget, and before them the frozen host; empty without a curve,
    and where none of its conditions was run.

    Columns: curve, condition, budget, seeds, total_flops (mean over seeds; none for the host), then id_acc, id_lo,
    id_hi and retention_acc, … (shares with 95 % intervals; retention under the router `single`, missing where that was
    not evaluated).
    """
    members = curves(stored.config)
    found = stored.frame(_CURVE, headline=headline(stored.config))
    ran = set(found["condition"])  # a budget may pay for no step
    order = [condition for condition in ("frozen", *members) if condition in ran] if ran & {*members} else []
    shown = found.set_index("condition").loc[order].reset_index()
    places = [members.get(condition, (condition, None)) for condition in order]
    shown.insert(0, "curve", [name for name, _ in places])
    shown.insert(2, "budget", pd.Series([budget for _, budget in places], dtype=float))
    return shown


def curve_table(suite: str, shown: pd.DataFrame) -> Table:
    """The points of the curves."""
    columns = [
        words("curve"),
        words("condition"),
        Column("budget", number("budget", "{:g}")),
        *([Column("seeds", number("seeds", "{:.0f}"))] if shown["seeds"].nunique() > 1 else []),
        Column("total FLOPs", number("total_flops", "{:.3g}")),
        Column(f"{TITLES['holdout_id']} %", lambda r: percent(r["id_acc"], r["id_lo"], r["id_hi"])),
        Column(
            "retention %, router single",
            lambda r: percent(r["retention_acc"], r["retention_lo"], r["retention_hi"]),
        ),
    ]
    return Table("curve", f"{suite}: accuracy by budget, means over seeds with 95 % intervals", shown, columns)
