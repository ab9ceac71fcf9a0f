"""The tables that an ecology leaves. Column types are fixed here, so an empty table has them too."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_INT, _FLOAT, _TEXT, _BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


# Amounts of energy are integers of micro-energy; `generations` has its means in units of energy.
TABLES: dict[str, pa.Schema] = {
    "episodes": _schema(
        generation=_INT, episode=_INT, organelle=_INT, slot=_INT, task_id=_TEXT, family=_TEXT, depth=_TEXT,
        sample=_INT, reward=_INT, cost=_INT, score=_FLOAT, correct=_BOOL, prompt_tokens=_INT, answer_tokens=_INT,
    ),
    "generations": _schema(
        generation=_INT, population=_INT, episodes=_INT, accuracy=_FLOAT, mean_reward=_FLOAT, mean_cost=_FLOAT,
        mean_net=_FLOAT, mean_roi=_FLOAT, energy_total=_FLOAT, births=_INT, deaths=_INT, merges=_INT,
        qd_coverage=_FLOAT, qd_score=_FLOAT, seconds=_FLOAT,
    ),
    "organelles": _schema(
        organelle=_INT, slot=_INT, rank=_INT, niche=_TEXT, origin=_TEXT, born=_INT, died=_INT, cause=_TEXT,
        balance=_INT, delta_norm=_FLOAT, learning_rate=_FLOAT, temperature=_FLOAT,
    ),
    "lineage": _schema(child=_INT, parent=_INT, role=_TEXT, generation=_INT, weight=_FLOAT),
    "ledger": _schema(generation=_INT, entry=_TEXT, account=_TEXT, amount=_INT),
    "assimilations": _schema(
        generation=_INT, child=_INT, parent_a=_INT, parent_b=_INT, family=_TEXT, depth=_TEXT, method=_TEXT,
        gain=_FLOAT, n=_INT, looks=_INT, uplift=_FLOAT, p=_FLOAT, worst_drop=_FLOAT, accepted=_BOOL, reason=_TEXT,
    ),
    "archive": _schema(
        generation=_INT, family=_TEXT, depth=_TEXT, cost_bin=_INT, organelle=_INT, objective=_FLOAT
    ),
}  # fmt: skip


def empty_events() -> dict[str, list[dict[str, Any]]]:
    """No rows in every table."""
    return {name: [] for name in TABLES}


def write_events(events: dict[str, list[dict[str, Any]]], folder: Path, names: Iterable[str] = TABLES) -> None:
    """Write each table to `folder/NAME.parquet`."""
    for name in names:
        pq.write_table(pa.Table.from_pylist(events[name], schema=TABLES[name]), folder / f"{name}.parquet")


def read_events(folder: Path, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Rows of the tables in a folder."""
    return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names}
