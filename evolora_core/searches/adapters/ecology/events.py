"""The tables that an ecology leaves. Column types are fixed here, so an empty table has them too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]  # column -> JSON value; the schemas say which
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
    "contests": _schema(
        generation=_INT, niche=_TEXT, organelle=_INT, learning_rate=_FLOAT, items=_INT, correct=_INT, p=_FLOAT,
        fate=_TEXT,
    ),
    "inheritance": _schema(generation=_INT, niche=_TEXT, donor=_TEXT, items=_INT, correct=_INT, chosen=_BOOL),
    "archive": _schema(
        generation=_INT, family=_TEXT, depth=_TEXT, cost_bin=_INT, organelle=_INT, objective=_FLOAT
    ),
}  # fmt: skip
# The fields of the organelles that died, as they were then.
DEAD = _schema(
    id=_INT, slot=_INT, rank=_INT, origin=_TEXT, born=_INT, niche=_TEXT, learning_rate=_FLOAT, temperature=_FLOAT,
    parents=pa.list_(_INT), strikes=_INT, learned=_INT, lessons=_INT, died=_INT, cause=_TEXT,
)  # fmt: skip
# What is known while a run lasts; who lived is told at its end.
LOGGED = {name: schema for name, schema in TABLES.items() if name != "organelles"} | {"dead": DEAD}
SEGMENT = "events.parquet"


@dataclass
class Events:
    """All rows of a run until now: those since the last commit by table, the others in the segments of its commits."""

    segments: list[Path] = field(default_factory=list)  # folders, oldest first
    fresh: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in LOGGED})

    def __getitem__(self, table: str) -> list[Row]:
        """All rows of a table; those that were committed are read."""
        rows: list[Row] = self.tables([table])[table].to_pylist()
        return rows

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Append rows to a table."""
        self.fresh[table] += rows

    def append(self, folder: Path) -> None:
        """Write the fresh rows as one file: a row of it, with a list of structs for each table."""
        columns = [pa.array([self.fresh[name]], pa.list_(pa.struct(list(schema)))) for name, schema in LOGGED.items()]
        pq.write_table(pa.table(columns, names=list(LOGGED)), folder / SEGMENT)

    def mark(self, segment: Path) -> None:
        """The fresh rows are committed, in this folder: a long run does not hold them."""
        self.segments.append(segment)
        self.fresh = {name: [] for name in LOGGED}

    def tables(self, names: Sequence[str]) -> dict[str, pa.Table]:
        """All rows of some tables."""
        committed = [pq.read_table(folder / SEGMENT, columns=list(names)) for folder in self.segments]
        found = {}
        for name in names:
            parts = [pa.Table.from_struct_array(own.column(name).combine_chunks().flatten()) for own in committed]
            parts.append(pa.Table.from_pylist(self.fresh[name], schema=LOGGED[name]))
            found[name] = pa.concat_tables([part.cast(LOGGED[name]) for part in parts]).combine_chunks()
        return found


def write_tables(events: Events, organelles: list[Row], folder: Path) -> None:
    """Write each of `TABLES` to `folder/NAME.parquet`."""
    tables = events.tables(list(LOGGED))
    tables["organelles"] = pa.Table.from_pylist(organelles, schema=TABLES["organelles"])
    for name in TABLES:
        pq.write_table(tables[name], folder / f"{name}.parquet")
