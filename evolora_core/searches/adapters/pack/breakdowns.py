"""Accuracy by family, and by routing."""

import pandas as pd

from evolora_core.language.splits import HOLDOUTS, in_order, title
from evolora_core.report.accuracies import interval_columns
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, words

_FAMILIES = """
    SELECT split, family, condition, accuracy.seeds, n, acc, lo, hi FROM accuracy JOIN suites USING (suite)
    WHERE suite = $suite AND arm = condition AND family <> '*'
    ORDER BY list_position($holdouts, split), split, family, list_position(conditions, condition)
"""
_ROUTINGS = """
    SELECT condition, arm, split, accuracy.seeds, n, acc, lo, hi, bare FROM accuracy JOIN suites USING (suite)
        LEFT JOIN (SELECT * EXCLUDE seeds FROM bare_host) USING (suite, condition, arm, split)
    WHERE suite = $suite AND family = '*'
    ORDER BY list_position(conditions, condition), arm <> condition, arm, list_position($holdouts, split), split
"""


def family_rows(stored: StoredSuite) -> pd.DataFrame:
    """Accuracy by split, family and condition."""
    return stored.frame(_FAMILIES, holdouts=list(HOLDOUTS))


def family_table(suite: str, data: pd.DataFrame) -> Table:
    """One column per condition."""
    columns = [
        Column("split", lambda r: title(r["split"]), left=True),
        words("family"),
        *interval_columns(data, ["split", "family"], "condition", dict.fromkeys(data["condition"])),
    ]
    caption = f"{suite}: accuracy by family, 95 % intervals in brackets"
    return Table("by_family", caption, data, columns, key=("split", "family"))


def routing_rows(stored: StoredSuite) -> pd.DataFrame:
    """Accuracy of every routing that was evaluated, by split; the headline routing comes first. `bare` is the number of
    seeds in which the bare host answered the whole split.
    """
    return stored.frame(_ROUTINGS, holdouts=list(HOLDOUTS))


def routing_table(suite: str, data: pd.DataFrame) -> Table:
    """One column per split."""
    columns = [
        words("condition"),
        Column("routing", lambda r: r["arm"].partition(":")[2] or "headline", left=True),
        *interval_columns(data, ["arm"], "split", in_order(set(data["split"])), title),
        Column("bare host, of seeds", lambda r: f"{r['bare']:.0f} of {r['seeds']}" if r["bare"] else "", left=True),
    ]
    return Table("by_routing", f"{suite}: accuracy by routing", data, columns, key=("arm",))
