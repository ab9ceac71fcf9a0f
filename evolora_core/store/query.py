"""Read-only questions to the store."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from evolora_core.errors import StoreError
from evolora_core.store.connection import one_line, opened, store_path

if TYPE_CHECKING:
    import pandas as pd

Parameters = Sequence[Any] | Mapping[str, Any]  # for `?` or `$name` in the SQL


class Result(NamedTuple):
    """The answer to a query."""

    columns: list[str]
    rows: list[tuple]

    def records(self) -> list[dict[str, Any]]:
        """The rows as flat objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def query(home: Path, sql: str, parameters: Parameters = ()) -> Result:
    """Run one SQL statement that only reads: it can change neither the store nor any file. Raises StoreError."""
    with opened(store_path(home), read_only=True) as connection:
        cursor = _execute(connection, sql, parameters)
        columns = _distinct([column[0] for column in cursor.description or []])
        return Result(columns, cursor.fetchall() if columns else [])


def frame(home: Path, sql: str, parameters: Parameters = ()) -> "pd.DataFrame":
    """The same as a pandas table; NULL is NaN in numeric columns."""
    with opened(store_path(home), read_only=True) as connection:
        return _execute(connection, sql, parameters).df()


def _distinct(names: list[str]) -> list[str]:
    """The second `acc` of a join is `acc_1`, as in a data frame of DuckDB's."""
    return [f"{name}_{names[:n].count(name)}" if name in names[:n] else name for n, name in enumerate(names)]


def _execute(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters) -> duckdb.DuckDBPyConnection:
    try:
        statements = connection.extract_statements(sql)
        if not statements:
            raise StoreError("SQL: no statement; ask something like `FROM paper_table`")
        if len(statements) > 1:
            raise StoreError("SQL: one statement at a time; nobody would see what the others answer")
        return connection.execute(sql, parameters if isinstance(parameters, Mapping) else list(parameters))
    except duckdb.Error as error:
        raise StoreError(f"SQL: {one_line(error)}") from error
