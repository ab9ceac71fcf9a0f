"""Tables of benchmarks: a file each in EVOLORA_HOME/bench, and the store's copy of them."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from evolora_core.engine.artifacts import write_json
from evolora_core.errors import StoreError
from evolora_core.foreign.text import one_line
from evolora_core.store.connection import opened, store_path
from evolora_core.store.transaction import transaction

MEASURED = ("measure", "ours", "other", "ratio", "unit", "note")
MACHINE = ("cores", "processor", "torch", "version", "code")


def record_benchmark(home: Path, bench: str, rows: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> Path:
    """Write the rows of a benchmark to a file and to the store, with facts of the machine under the names of MACHINE;
    returns the file.
    """
    measured = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path = home / "bench" / f"{bench}-{measured}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"bench": bench, "measured": measured, "machine": dict(machine), "rows": [dict(row) for row in rows]}
    write_json(path, document)
    try:
        with opened(store_path(home)) as connection:
            insert_benchmark(connection, path)
    except StoreError as error:
        raise type(error)(f"{error}; what was measured is in {path}, and `evolora store rebuild` loads it") from error
    return path


def insert_benchmark(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Load one file into an open store. Raises StoreError, and loads nothing of it, if it is damaged."""
    names = ("bench", "measured", *MEASURED, *MACHINE)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        machine = document["machine"]
        of_all = [document["bench"], document["measured"]]
        machines = [machine.get(name) for name in MACHINE]
        rows = [[*of_all, *(row.get(name) for name in MEASURED), *machines] for row in document["rows"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: damaged ({one_line(error)}); measure again, or delete it") from error
    try:
        with transaction(connection):
            for row in rows:
                connection.execute(
                    f"INSERT INTO data.benchmarks ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
                    row,
                )
    except (duckdb.DataError, duckdb.InvalidInputException) as error:  # a text in the place of a number
        raise StoreError(f"{path}: damaged ({one_line(error)}); measure again, or delete it") from error
