"""The schema: numbered migrations, each applied once, and the views, replaced whenever their text changes."""

import hashlib
from contextlib import closing
from functools import cache
from pathlib import Path

import duckdb

from evolora_core.errors import StoreError

FOLDER = Path(__file__).parent


def migrations(folder: Path | None = None) -> list[str]:
    """The scripts `0001_*.sql`, `0002_*.sql`, … in order; script i leads to version i + 1."""
    files = sorted((folder or FOLDER / "migrations").glob("[0-9]*.sql"))
    if [int(f.name[:4]) for f in files] != list(range(1, len(files) + 1)):
        raise StoreError(f"{FOLDER / 'migrations'}: numbers must run 0001, 0002, … without gaps")
    return [f.read_text() for f in files]


@cache
def tables() -> list[str]:
    """Names of the tables that a stage may fill: those with the slice columns. An empty store in memory knows them."""
    with closing(duckdb.connect(":memory:")) as connection:
        for script in migrations():
            connection.execute(script)
        found = connection.execute(
            "SELECT table_name FROM information_schema.columns "
            "WHERE table_schema = 'data' AND column_name = 'run_id' AND table_name <> 'stages' ORDER BY table_name"
        ).fetchall()
    return [name for (name,) in found]


def is_current(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Whether the open file has this code's schema and views. Raises StoreError if it is newer."""
    version, views = _read(connection)
    newest = len(migrations())
    if version > newest:
        raise StoreError(
            f"{path}: its schema {version} is newer than this Evolora's {newest}; use that newer Evolora, "
            "or move the file away and run `evolora store rebuild`"
        )
    return (version, views) == (newest, _hash(_views()))


def bring_up_to_date(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Apply what is missing in one transaction: all of it or nothing."""
    if is_current(connection, path):
        return
    scripts, views = migrations(), _views()
    version, _ = _read(connection)
    connection.execute("BEGIN")
    try:
        for script in scripts[version:]:
            connection.execute(script)
        connection.execute(views)
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT, views VARCHAR)")
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", [len(scripts), _hash(views)])
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _read(connection: duckdb.DuckDBPyConnection) -> tuple[int, str]:
    """Version and hash of the views of an open file; (0, "") for an empty one."""
    try:
        return connection.execute("SELECT version, views FROM schema_version").fetchall()[0]
    except duckdb.CatalogException:
        return 0, ""


def _views() -> str:
    return (FOLDER / "views.sql").read_text()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
