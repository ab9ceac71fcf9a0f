"""Accuracy on the holdout files that a suite names."""

import pandas as pd

from evolora_core.language.splits import HOLDOUTS
from evolora_core.report.accuracies import interval_columns
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, number, words

_ROWS = """
    SELECT split, condition, accuracy.seeds, n, acc, lo, hi FROM accuracy JOIN suites USING (suite)
    WHERE suite = $suite AND arm = condition AND family = '*' AND NOT list_contains($holdouts, split)
    ORDER BY split, list_position(conditions, condition)
"""


def holdout_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per file and condition, under the headline router: split, condition, seeds, n, acc, lo, hi, and left_out,
    the items that were not asked because the adapters of their seed knew them; n and left_out are of all seeds. Empty
    where the suite names no file.
    """
    found = stored.frame(_ROWS, holdouts=list(HOLDOUTS))
    chosen = [
        row["manifest"]["summary"]
        for row in stored.manifests
        if row["stage"] == "holdouts" and row["seed"] in stored.seeds
    ]
    return found.assign(left_out=[sum(own[split]["left_out"] for own in chosen) for split in found["split"]])


def holdout_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per file, one column per condition."""
    asked = data.groupby("split")["n"].max().to_dict()  # a condition may not have been run with every seed
    columns = [
        words("file", "split"),
        Column("items, all seeds", lambda r: str(asked[r["split"]])),
        Column("left out", number("left_out", "{:d}")),
        *interval_columns(data, ["split"], "condition", dict.fromkeys(data["condition"])),
    ]
    caption = f"{suite}: accuracy on holdout files, 95 % intervals in brackets"
    return Table("holdouts", caption, data, columns, key=("split",))
