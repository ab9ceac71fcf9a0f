"""The one writer: in one transaction it replaces the slice (run, stage) by the Parquet tables of a stage folder."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from evolora_core.errors import StageError
from evolora_core.store import schema
from evolora_core.store.connection import opened, store_path
from evolora_core.store.said import duckdb_says
from evolora_core.store.slices import Artefact, Slice, read_artefact
from evolora_core.store.transaction import transaction

_one_writer = threading.Lock()  # two threads that replace the same suite's row would conflict


def record(home: Path, part: Slice) -> dict[str, int]:
    """Load a finished stage; returns rows per table. The same again changes nothing. Raises StageError, StoreError.

    Files are checked against the manifest before the store is opened; it stays open for the transaction alone.
    """
    artefact = read_artefact(home, part)
    with _one_writer, opened(store_path(home)) as connection:
        return write(connection, artefact)


def forget(home: Path, stages: Sequence[tuple[str, str]]) -> None:
    """Delete the slices of these (run id, stage), all or none; those that were never recorded are none."""
    if not store_path(home).exists():
        return
    with _one_writer, opened(store_path(home)) as connection, transaction(connection):
        for run_id, stage in stages:
            _delete(connection, run_id, stage)


def write(connection: duckdb.DuckDBPyConnection, artefact: Artefact) -> dict[str, int]:
    """Replace the artefact's slice within an open connection: everything or nothing."""
    part = artefact.part
    with transaction(connection):
        _delete(connection, part.run_id, part.stage)
        rows = {table: _load(connection, table, file, part) for table, file in artefact.tables.items()}
        _insert_stage(connection, artefact)
        if artefact.config is not None:
            replace_suite(connection, part.suite, artefact.config)
        _check_headline(connection, part)
    return rows


def _delete(connection: duckdb.DuckDBPyConnection, run_id: str, stage: str) -> None:
    """Delete a slice from all tables. No table has rows of a stage that is not recorded."""
    there = "SELECT 1 FROM data.stages WHERE run_id = ? AND stage = ?"
    if not connection.execute(there, [run_id, stage]).fetchall():
        return
    for table in [*schema.tables(), "stages"]:
        connection.execute(f"DELETE FROM data.{table} WHERE run_id = ? AND stage = ?", [run_id, stage])


def _load(connection: duckdb.DuckDBPyConnection, table: str, file: Path, part: Slice) -> int:
    """Insert one Parquet file; returns its rows. A column that the table lacks is an error, a missing one NULL."""
    try:
        inserted = connection.execute(
            f"INSERT INTO data.{table} BY NAME "
            "SELECT ? AS suite, ? AS run_id, ? AS condition, ? AS seed, ? AS stage, * "
            "FROM read_parquet(?, hive_partitioning = false)",  # a folder above it may be called seed=3
            [part.suite, part.run_id, part.condition, part.seed, part.stage, str(file)],
        ).fetchall()
    except (duckdb.BinderException, duckdb.ConversionException, duckdb.InvalidInputException) as error:
        raise StageError(f"{file}: does not fit the table `{table}` of the store: {duckdb_says(error)}") from error
    count: int = inserted[0][0]
    return count


def _insert_stage(connection: duckdb.DuckDBPyConnection, artefact: Artefact) -> None:
    part, manifest = artefact.part, artefact.manifest
    connection.execute(
        "INSERT INTO data.stages (suite, run_id, condition, seed, stage, folder, identity, seconds, flops, manifest) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [part.suite, part.run_id, part.condition, part.seed, part.stage, artefact.folder.as_posix()]
        + [manifest.get(key) for key in ("identity", "seconds", "flops")]
        + [json.dumps(manifest, sort_keys=True)],
    )


def replace_suite(connection: duckdb.DuckDBPyConnection, suite: str, config: dict[str, Any]) -> None:
    """Write a suite's resolved configuration in the place of what an open store has of it."""
    connection.execute("DELETE FROM data.suites WHERE suite = ?", [suite])
    connection.execute(
        "INSERT INTO data.suites (suite, name, host, seeds, conditions, config) VALUES (?, ?, ?, ?, ?, ?)",
        [suite]
        + [config["name"], config.get("host"), config["seeds"], config["conditions"]]
        + [json.dumps(config, sort_keys=True)],
    )


def _check_headline(connection: duckdb.DuckDBPyConnection, part: Slice) -> None:
    """The views show the arm that is named like its condition, so evaluations must have one."""
    arms = connection.execute(
        "SELECT DISTINCT arm FROM data.evaluations WHERE run_id = ? AND stage = ? ORDER BY arm",
        [part.run_id, part.stage],
    ).fetchall()
    if arms and part.stage == "evaluate" and (part.condition,) not in arms:
        named = ", ".join(arm for (arm,) in arms)
        raise StageError(f"{part.run_id}: its evaluations have no arm `{part.condition}`, only {named}")
