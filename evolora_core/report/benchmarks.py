"""The history of benchmarks: ratios of two sides that one run compared, each with the machine and the code it is of."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from evolora_core.report.tables import NONE, Column, Table, number, rows_of, words
from evolora_core.store import frame, store_path

_HISTORY = """
    SELECT bench, measure, measured, ratio, before, change, unit, cores, processor, torch, version, code, note
    FROM benchmark_history WHERE $bench IN ('', bench)
    QUALIFY row_number() OVER (PARTITION BY bench, note, measure ORDER BY measured DESC) <= $last
    ORDER BY bench, note, measure, measured
"""


def history_rows(home: Path, bench: str = "", last: int = 10) -> list[dict[str, Any]]:
    """The latest ratios of each measure with the same settings (`note`), in the order of time; of all benchmarks if
    none is named. No rows where nothing was measured.
    """
    if not store_path(home).exists():
        return []
    found = frame(home, _HISTORY, {"bench": bench, "last": last})
    return rows_of(found)


def history_page(home: Path, last: int = 10) -> str:
    """The same as a page in Markdown: a table for each benchmark and its settings."""
    parts = [
        "A ratio compares two sides in one run, ours first. *Before* is the ratio of the same measure with the same "
        "settings the time before, perhaps on another machine or of other code: the columns say.\n"
    ]
    rows = history_rows(home, last=last)
    for (bench, note), own in groupby(rows, lambda row: (row["bench"], row["note"])):
        table = Table(bench, "", pd.DataFrame(list(own)), _COLUMNS)
        parts.append(f"## {bench}\n\n{note}\n\n{table.to_markdown()}")
    return "\n".join(parts) if rows else "Nothing was measured yet.\n"


def _time(row: dict[str, Any]) -> str:
    """`2026-01-31 08:00` of 20260131T080000Z."""
    text = row["measured"]
    return f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[9:11]}:{text[11:13]}"


def _text(key: str) -> Column:
    return Column(key, lambda row: NONE if row[key] is None else str(row[key]), left=True)


_COLUMNS = (
    words("measure"),
    Column("measured, UTC", _time, left=True),
    Column("ratio", number("ratio", "{:.3f}")),
    Column("before", number("before", "{:.3f}")),
    Column("change", number("change", "{:+.1%}")),
    Column("of", lambda row: row["unit"] or NONE, left=True),
    Column("cores", number("cores", "{:.0f}")),
    _text("processor"),
    _text("torch"),
    _text("version"),
    _text("code"),
)
