"""The headline: the view `paper_table` in two tables, and the comparisons with what they say about the bare host."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from evolora_core.language.splits import TITLES
from evolora_core.report import comparisons, takeaways
from evolora_core.report.not_run import not_run_rows
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, number, percent, words


def paper_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition, means over the complete seeds. Where a condition was not run, there is a column more:
    `not_run`, the seeds with which it was not ("": it was with all).
    """
    rows, absent = stored.frame("FROM paper_table WHERE suite = $suite"), not_run_rows(stored)
    if absent.empty:
        return rows
    rows = rows.merge(absent[["condition", "not_run"]], how="left", on="condition")
    return rows.assign(not_run=rows["not_run"].astype(object).where(rows["not_run"].notna(), ""))


def paper_table(suite: str, data: pd.DataFrame) -> Table:
    """Accuracy first."""
    columns = [
        words("condition"),
        Column("seeds", lambda r: str(r["seeds"])),
        *(Column(f"{title} %", _interval(split)) for split, title in TITLES.items()),
        Column("total FLOPs", number("total_flops", "{:.3g}")),
    ]
    if "not_run" in data:
        columns.append(Column("", _absence, left=True))
    return Table("paper_table", f"{suite}: accuracy, means over seeds with 95 % intervals", data, columns)


def economy_table(suite: str, data: pd.DataFrame) -> Table:
    """What it took: the other columns of the paper table."""
    columns = [
        words("condition"),
        Column("generations", number("generations", "{:.0f}")),
        Column("episodes", number("episodes", "{:.0f}")),
        Column("net / episode", number("mean_net", "{:+.2f}")),
        Column("ROI", number("mean_roi", "{:.2f}")),
        Column("merges and sums", number("merges", "{:.1f}")),
        Column("QD coverage", number("qd_coverage", "{:.2f}")),
        Column("FLOPs / answer, all splits", number("cost_per_answer", "{:.3g}")),
        Column("training FLOPs", number("train_flops", "{:.3g}")),
        Column("total FLOPs", number("total_flops", "{:.3g}")),
    ]
    return Table("economy", "What it took, means over seeds", data, columns)


def comparison_rows(stored: StoredSuite) -> pd.DataFrame:
    """The declared comparisons; `bare` says which side is the bare host, and in how many seeds ("": neither)."""
    bare = stored.frame("SELECT * EXCLUDE suite FROM comparison_bare WHERE suite = $suite")
    rows = comparisons.comparison_rows(stored).merge(bare, how="left", on=["split", "a", "b", "routing"])
    return rows.assign(bare=rows["bare"].astype(object).where(rows["bare"].notna(), ""))


def comparison_table(suite: str, data: pd.DataFrame) -> Table:
    """The comparisons, with the bare host where it is on a side."""
    table = comparisons.comparison_table(suite, data)
    if not data["bare"].any():
        return table
    return replace(table, columns=[*table.columns, words("bare host", "bare")])


def takeaway(row: Mapping[str, Any]) -> str:
    """The sentence about a comparison, and whether an arm of it changed nothing."""
    bare = f" The bare host answers for {row['bare']}." if row.get("bare") else ""
    return takeaways.takeaway(row, "router") + bare


def _absence(row: Mapping[str, Any]) -> str:
    if not row["not_run"]:
        return ""
    seeds = f" with seed {row['not_run']}" if row["seeds"] else ""
    return f"not run{seeds}: budget too small"


def _interval(split: str) -> Callable[[dict[str, Any]], str]:
    return lambda r: percent(r[f"{split}_acc"], r[f"{split}_lo"], r[f"{split}_hi"])
