"""The schema: numbered migrations, each applied once, and the views, replaced whenever a text of theirs changes.

The core and each search count their versions apart (table `schema_version`). What a search that is not installed here
has brought stays as it is.
"""

import hashlib
from contextlib import closing
from functools import cache
from pathlib import Path

import duckdb

from evolora_core.errors import StoreError
from evolora_core.store.owners import CORE, Owner, owners, run_script
from evolora_core.store.transaction import transaction


@cache
def tables() -> list[str]:
    """Names of the tables that a stage may fill: those with the slice columns. An empty store in memory knows them."""
    with closing(duckdb.connect(":memory:")) as connection:
        for owner in owners():
            for file in owner.migrations():
                run_script(connection, file)
        found = connection.execute(
            "SELECT table_name FROM information_schema.columns "
            "WHERE table_schema = 'data' AND column_name = 'run_id' AND table_name <> 'stages' ORDER BY table_name"
        ).fetchall()
    return [name for (name,) in found]


def is_current(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Whether the open file has this code's schema and views. Raises StoreError if it is newer, or too old."""
    there = _versions(connection)
    for owner in owners():
        version, newest = there.get(owner.name, (0, ""))[0], len(owner.migrations())
        if version > newest:
            raise _newer(path, version, newest, "" if owner.name == CORE else f" of {owner.name}")
    return all(there.get(owner.name) == (len(owner.migrations()), _hash(owner)) for owner in owners())


def bring_up_to_date(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Apply what is missing in one transaction: all of it or nothing. Raises StoreError that names a file at fault."""
    if is_current(connection, path):
        return
    there = _versions(connection)
    now = {owner.name: (len(owner.migrations()), _hash(owner)) for owner in owners()}
    with transaction(connection):
        for owner in owners():
            for file in owner.migrations()[there.get(owner.name, (0, ""))[0] :]:
                run_script(connection, file)
        for owner in owners():  # all of them, since a view does not see that one it uses has other columns now
            for file in owner.views():
                run_script(connection, file)
        connection.execute("CREATE OR REPLACE TABLE schema_version (owner VARCHAR, version BIGINT, views VARCHAR)")
        for name, (version, views) in (there | now).items():
            connection.execute("INSERT INTO schema_version VALUES (?, ?, ?)", [name, version, views])


def _versions(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, str]]:
    """Owner -> version and hash of the views of an open file; none for an empty one."""
    try:
        rows = connection.execute("SELECT owner, version, views FROM schema_version").fetchall()
    except duckdb.CatalogException:
        return {}
    return {name: (version, views) for name, version, views in rows}


def _newer(path: Path, version: int, newest: int, whose: str) -> StoreError:
    return StoreError(
        f"{path}: its schema {version}{whose} is newer than this Evolora's {newest}; use that newer Evolora, "
        "or move the file away and run `evolora store rebuild`"
    )


def _hash(owner: Owner) -> str:
    """Hash of the text of the views."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in owner.views())).hexdigest()[:16]
