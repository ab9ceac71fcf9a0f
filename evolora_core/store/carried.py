"""The rows of a suite as a few small Parquet files: what a pack or a shard carries, so that a store with the same
numbers can be made where no run folders are.

A table is carried whole, without the names of suite and run, unless its owner's SQL says otherwise (owners.py). Answers
are a bit each: their items stand in a file of their own, numbered, and texts are left out.
"""

import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from evolora_core.errors import StoreError
from evolora_core.foreign.text import one_line
from evolora_core.store.connection import kept_open, opened, store_path
from evolora_core.store.owners import owners
from evolora_core.store.record import replace_suite
from evolora_core.store.said import duckdb_says
from evolora_core.store.schema import tables as tables_of_store
from evolora_core.store.transaction import transaction

Run = tuple[str, int]  # condition and seed

LARGEST = 2**32  # bytes of a table that somebody else may have written, in memory
BATCH = 1024  # rows of it that are read at once

_NAME = re.compile("[a-z][a-z0-9-]*")
_SUITE = re.compile("[a-z0-9][a-z0-9-]*-[0-9a-f]{8}")
_LEFT_OUT = ("files", "started", "finished", "warnings", "lineage")  # of a manifest
_WHOLE = """
    SELECT * EXCLUDE (suite, run_id) FROM data.{table} AS t
    SEMI JOIN chosen USING (run_id, stage) ORDER BY condition, seed, stage, t.rowid
"""

# Every item of a seed, numbered in the order in which it was asked; `rank` is its place by task_id, in which arms are
# paired.
_ITEMS = """
    CREATE TEMP TABLE items AS
    WITH asked AS (
        SELECT seed, split, task_id, family, depth, prompt,
            row_number() OVER (PARTITION BY run_id, stage, arm, split ORDER BY e.rowid) AS place
        FROM data.evaluations AS e SEMI JOIN chosen USING (run_id, stage)
    ), once AS (
        SELECT seed, split, task_id, any_value(family) AS family, any_value(depth) AS depth,
            any_value(item_key(prompt, task_id)) AS prompt, min(place) AS place
        FROM asked GROUP BY ALL
    )
    SELECT *, row_number() OVER (PARTITION BY seed, split ORDER BY place, task_id) - 1 AS item,
        row_number() OVER (PARTITION BY seed, split ORDER BY task_id) - 1 AS rank
    FROM once
"""
# In a pack, task ids and prompts are numbers: the rank, and the first place of a prompt in its split.
_NUMBERED = """
    WITH first AS (SELECT split, prompt, min((seed, item)) AS place FROM items GROUP BY ALL),
    numbered AS (SELECT split, prompt, row_number() OVER (PARTITION BY split ORDER BY place) - 1 AS number FROM first)
    SELECT seed, split, family, depth, item, rank AS task, number AS prompt
    FROM items JOIN numbered USING (split, prompt) ORDER BY split, seed, item
"""
# In a shard they must mean the same in every shard.
_NAMED = """
    SELECT seed, split, family, depth, item, task_id AS task, prompt FROM items ORDER BY split, seed, item
"""


@cache
def _carried() -> dict[str, str]:
    """File -> the query that fills it, of `chosen` (the stages) and `items`."""
    queries = {table: _WHOLE.format(table=table) for table in tables_of_store()}
    for owner in owners():
        queries |= owner.queries("carry")
    return {name: sql for name, sql in queries.items() if sql}


@cache
def _loaded() -> dict[str, tuple[str, set[str]]]:
    """Table -> the query that makes its rows, and the files that it takes."""
    queries = {table: f"SELECT * FROM carried_{table}" for table in tables_of_store() if table in _carried()}
    for owner in owners():
        queries |= owner.queries("load")
    return {table: (sql, set(re.findall(r"\bcarried_(\w+)", sql))) for table, sql in queries.items()}


@cache
def files() -> tuple[str, ...]:
    """The files that a folder of rows may have, without `.parquet`; those without rows are left out."""
    return ("suite", "items", *_carried())


def carry(home: Path, suite: str, folder: Path, *, shard: bool = False, runs: Collection[Run] | None = None) -> None:
    """Write the rows of a suite id to Parquet files in `folder`, which is made. Raises StoreError if there are none.

    A shard has the names of its items, so that it can be joined with others, and leaves out what is of the whole suite
    (comparisons); `runs` are those that it has, all by default.
    """
    with opened(store_path(home), read_only=True) as connection:
        config = connection.execute("SELECT config FROM data.suites WHERE suite = ?", [suite]).fetchall()
        if not config:
            raise StoreError(f"{suite}: the store has no such suite")
        connection.execute(
            "CREATE TEMP TABLE chosen AS SELECT run_id, stage, condition, seed FROM data.stages "
            "WHERE suite = $suite AND NOT (condition = 'suite' AND ($shard OR stage = 'pack'))",
            {"suite": suite, "shard": shard},
        )
        if runs is not None:
            for condition, seed in connection.execute("SELECT DISTINCT condition, seed FROM chosen").fetchall():
                if (condition, seed) not in runs:
                    connection.execute("DELETE FROM chosen WHERE condition = ? AND seed = ?", [condition, seed])
        connection.execute(_ITEMS)
        found = {name: _arrow(connection, sql) for name, sql in _carried().items()}
        found["items"] = _arrow(connection, _NAMED if shard else _NUMBERED)
    if not found["stages"].num_rows:
        raise StoreError(f"{suite}: the store has no stage of these runs; `evolora status {suite}` lists them")
    found["stages"] = _without(found["stages"])
    found["answers"] = _filled(found["answers"])
    found["suite"] = pa.table({"suite": [suite], "config": [config[0][0]]})
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in found.items():
        if table.num_rows:
            _write(table, folder / f"{name}.parquet")


def read(folder: Path) -> dict[str, pa.Table]:
    """The files of a folder of rows. Raises StoreError that names one which is damaged, strange or missing."""
    tables = {}
    for file in sorted(folder.glob("*.parquet")):
        if file.stem not in files():
            raise StoreError(f"{file}: no file of a pack or shard; they have {', '.join(files())}")
        try:
            tables[file.stem] = _bounded(file)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise StoreError(f"{file}: damaged ({one_line(error)})") from error
    if missing := {"suite", "stages"} - tables.keys():
        raise StoreError(f"{folder}: has no {min(missing)}.parquet, so it holds no rows of a suite")
    try:
        suite, config = suite_in(tables)
        whole = bool(_SUITE.fullmatch(suite)) and {"name", "seeds", "conditions"} <= {*config}
    except (LookupError, TypeError, ValueError):
        whole = False
    if not whole:  # the id names folders, and may come from another machine
        raise StoreError(f"{folder / 'suite.parquet'}: damaged: it names no suite with its settings")
    for name, table in tables.items():  # so do conditions and stages
        for column in {"condition", "stage"} & {*table.column_names}:
            if strange := [word for word in table[column].unique().to_pylist() if not _NAME.fullmatch(str(word))]:
                raise StoreError(f"{folder / name}.parquet: damaged: {one_line(str(strange[0]))!r} is no {column}")
    return tables


def _bounded(file: Path) -> pa.Table:
    """The table of a file. ValueError where it takes too much memory: a few bytes may hold any number of rows."""
    source, parts, taken = pq.ParquetFile(file, page_checksum_verification=True), [], 0
    for part in source.iter_batches(batch_size=BATCH):
        taken += part.nbytes
        if taken > LARGEST:
            raise ValueError(f"takes more than {LARGEST >> 20} MiB of memory")
        parts.append(part)
    return pa.Table.from_batches(parts, schema=source.schema_arrow)


def suite_in(tables: dict[str, pa.Table]) -> tuple[str, dict[str, Any]]:
    """Id and resolved configuration of the suite of which the rows are."""
    row = tables["suite"].to_pylist()[0]
    return row["suite"], json.loads(row["config"])


def load(connection: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> int:
    """Insert the rows of one folder into an open store, which has no rows of these stages; returns how many.

    Raises StoreError for rows that do not fit. The caller looks after the transaction.
    """
    suite, config = suite_in(tables)
    rows = 0
    try:
        for name, table in tables.items():
            connection.register(f"carried_{name}", table)
        for name, (sql, taken) in _loaded().items():
            if taken <= tables.keys():
                rows += _insert(connection, suite, name, sql)
        replace_suite(connection, suite, config)
    except duckdb.Error as error:
        raise StoreError(f"rows of {suite} do not fit the store ({duckdb_says(error)})") from error
    finally:
        for name in tables:
            connection.unregister(f"carried_{name}")
    return rows


def _insert(connection: duckdb.DuckDBPyConnection, suite: str, table: str, sql: str) -> int:
    inserted = connection.execute(
        f"INSERT INTO data.{table} BY NAME "
        f"SELECT $suite AS suite, $suite || '.' || condition || '.s' || seed AS run_id, * FROM ({sql})",
        {"suite": suite},
    ).fetchall()
    return int(inserted[0][0])


@contextmanager
def unpacked(tables: dict[str, pa.Table]) -> Iterator[Path]:
    """A home of its own, gone afterwards, whose store has the rows of one folder and nothing else."""
    with TemporaryDirectory(prefix="evolora-rows-") as work:
        with opened(store_path(Path(work))) as connection, transaction(connection):
            load(connection, tables)
        with kept_open(Path(work)):
            yield Path(work)


def _arrow(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def _without(stages: pa.Table) -> pa.Table:
    """The stages, with manifests that leave out files and times."""
    manifests = [json.loads(text) for text in stages["manifest"].to_pylist()]
    kept = [json.dumps({k: v for k, v in own.items() if k not in _LEFT_OUT}, sort_keys=True) for own in manifests]
    return stages.set_column(stages.schema.get_field_index("manifest"), "manifest", pa.array(kept, pa.string()))


def _filled(answers: pa.Table) -> pa.Table:
    """Answers without the columns of other searches, which have no value here."""
    return answers.select([name for name in answers.column_names if answers[name].null_count < max(1, len(answers))])


def _write(table: pa.Table, path: Path) -> None:
    """Write a table as small as Parquet gets: running numbers as differences, the rest by dictionary, all with zstd."""
    running = [
        name
        for name in ("item", "prompt", "task")
        if name in table.schema.names and pa.types.is_integer(table.schema.field(name).type)
    ]
    words = [field.name for field in table.schema if field.name not in running and not pa.types.is_boolean(field.type)]
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=19,
        use_dictionary=words,
        column_encoding=dict.fromkeys(running, "DELTA_BINARY_PACKED"),
        write_statistics=False,
        store_schema=False,
        write_page_checksum=True,
        row_group_size=max(1, table.num_rows),
    )
