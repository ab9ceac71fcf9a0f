"""Read-only questions to the store."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from evolora_core.errors import StoreError
from evolora_core.foreign.documents import check_text
from evolora_core.foreign.files import Unfit
from evolora_core.foreign.guard import Begin, guarded
from evolora_core.foreign.text import one_line
from evolora_core.store.connection import is_damage, opened, store_path
from evolora_core.store.said import duckdb_says

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_ASKED = re.compile(r"\bFROM\s+([A-Za-z_][\w.]*)", re.IGNORECASE)  # the table that a statement names first
Parameters = Sequence[Any] | Mapping[str, Any]  # for `?` or `$name` in the SQL


class Result(NamedTuple):
    """The answer to a query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        """The rows as flat objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def query(home: Path, sql: str, parameters: Parameters = ()) -> Result:
    """Run one SQL statement that only reads: it can change neither the store nor any file. Raises StoreError."""
    with opened(store_path(home), read_only=True) as connection:
        return _taken(_execute(connection, sql, parameters))


def frame(home: Path, sql: str, parameters: Parameters = ()) -> "pd.DataFrame":
    """The same as a pandas table; NULL is NaN in numeric columns."""
    with opened(store_path(home), read_only=True) as connection:
        return _execute(connection, sql, parameters).df()


def bounded(
    home: Path,
    sql: str,
    tell: "Callable[[Result], str] | Callable[[pa.Table], str]",
    *,
    table: bool,
    seconds: float,
    memory: int,
) -> str:
    """What `tell` says of the answer (an Arrow table if `table`), within so many seconds and bytes of memory.

    The statement may be anybody's: it runs in a process that is ended when it takes more. StoreError then too.
    """

    def work(begin: Begin) -> str:
        with opened(store_path(home), read_only=True) as connection:
            begin()
            connection.execute("SET max_temp_directory_size = '0B'")  # what is killed leaves no files
            connection.execute(f"SET memory_limit = '{memory * 3 // 4}B'")
            try:
                said = _arrow(connection, sql) if table else _taken(_execute(connection, sql, ()))
            except duckdb.Error as error:
                raise StoreError(f"SQL: {_said(error, sql)}") from error
            except (
                ValueError,
                OverflowError,
                TypeError,
                NotImplementedError,
            ) as error:  # a value that Python has none for
                raise StoreError(f"SQL: the answer has no form here ({one_line(error)}); cast it to text") from error
            return tell(said)  # type: ignore[arg-type]

    try:
        return guarded(work, seconds=seconds, memory=memory)
    except Unfit as error:
        raise StoreError(f"SQL: {error}; ask for less, or set --seconds and --memory") from error


def _taken(cursor: duckdb.DuckDBPyConnection) -> Result:
    """All rows of a cursor."""
    columns = _distinct([column[0] for column in cursor.description or []])
    return Result(columns, cursor.fetchall() if columns else [])


def _arrow(connection: duckdb.DuckDBPyConnection, sql: str) -> "pa.Table":
    """The answer with DuckDB's own types; wide integers are decimals. Raises StoreError, and what DuckDB raises."""
    _check(connection, sql)
    table = connection.sql(sql).to_arrow_table()
    return table.rename_columns(_distinct(table.column_names))


def _distinct(names: list[str]) -> list[str]:
    """The second `acc` of a join is `acc_1`, as in a data frame of DuckDB's, or the next number that is free."""
    found: list[str] = []
    for place, name in enumerate(names):
        own = name
        if name in names[:place]:
            numbered = (f"{name}_{number}" for number in count(names[:place].count(name)))
            own = next(other for other in numbered if other not in {*names, *found})
        found.append(own)
    return found


def _execute(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters) -> duckdb.DuckDBPyConnection:
    _check(connection, sql)
    try:
        return connection.execute(sql, parameters if isinstance(parameters, Mapping) else list(parameters))
    except duckdb.Error as error:
        raise StoreError(f"SQL: {_said(error, sql)}") from error


def _check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise StoreError unless this is one statement."""
    if not sql.isascii():
        try:
            check_text(sql)
        except Unfit as error:
            raise StoreError(f"SQL: is no text in UTF-8 ({error})") from error
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise StoreError(f"SQL: {_said(error, sql)}") from error
    if not statements:
        raise StoreError("SQL: no statement; ask something like `FROM paper_table`")
    if len(statements) > 1:
        raise StoreError("SQL: give one statement at a time; only the last one's rows would be shown")


def _said(error: duckdb.Error, sql: str) -> str:
    """What DuckDB says, and what helps: where the right name is found, or how a damaged store is mended."""
    if is_damage(error):
        return f"{duckdb_says(error)}; `evolora store rebuild` makes the store anew"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "the query takes more memory than it may; ask for less, or set --memory"
    asked = _ASKED.search(sql)
    describe = f"DESCRIBE {asked[1] if asked else 'paper_table'}"
    mends = {duckdb.CatalogException: "SHOW TABLES", duckdb.BinderException: describe}
    look = next((statement for kind, statement in mends.items() if isinstance(error, kind)), "")
    return duckdb_says(error) + (f'; `evolora sql "{look}"` shows the names that there are' if look else "")
