"""Parquet tables of a stage folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_table(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows to `folder/name.parquet`, the columns as the first row has them. ValueError where there is none: the
    file would have no columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not rows:
        raise ValueError(f"{name}: a table without rows has no columns")
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / f"{name}.parquet")


def read_table(folder: Path, name: str) -> list[dict[str, Any]]:
    """Rows of `folder/name.parquet`."""
    import pyarrow.parquet as pq

    result: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return result
