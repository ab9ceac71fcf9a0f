"""Accuracy of every arm on every split."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from evolora_core.language.splits import in_order, title
from evolora_core.report.sections import PackTable
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, percent, rows_of, words

_ROWS = """
    SELECT condition, arm, split, accuracy.seeds, n, acc, lo, hi FROM accuracy JOIN suites USING (suite)
    WHERE suite = $suite AND family = '*' ORDER BY list_position(conditions, condition), arm <> condition, arm, split
"""


def accuracy_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per arm and split, the headline arm of each condition first: condition, arm, split, seeds, n, acc, lo, hi
    (shares over the complete seeds, with 95 % intervals).
    """
    return stored.frame(_ROWS)


def accuracy_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per arm, one column per split."""
    columns = [
        words("arm"),
        Column("seeds", lambda r: str(r["seeds"])),
        *interval_columns(data, ["arm"], "split", in_order(set(data["split"])), title),
    ]
    caption = f"{suite}: accuracy, means over seeds with 95 % intervals"
    return Table("accuracy", caption, data, columns, key=("arm",))


def interval_columns(
    data: pd.DataFrame, key: Sequence[str], by: str, values: Iterable[str], heading: Callable[[str], str] = str
) -> list[Column]:
    """A column for each of the `values` of `by`: the accuracy, with its interval, of the row that has this value and
    the table's row's own in `key`.
    """
    by_cell = {tuple(own[name] for name in [*key, by]): own for own in rows_of(data)}

    def cell(value: str) -> Callable[[dict[str, Any]], str]:
        return lambda r: interval(by_cell.get((*(r[name] for name in key), value)))

    return [Column(f"{heading(value)} %", cell(value)) for value in values]


def interval(row: dict[str, Any] | None) -> str:
    """A row's accuracy with its interval; a dash where there is no such row."""
    return percent(row["acc"], row["lo"], row["hi"]) if row else percent(None)


ACCURACY = PackTable(accuracy_rows, (accuracy_table,))
