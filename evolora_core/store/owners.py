"""Whose the SQL of the store is: the core's, and that of each search, which has a folder `sql` beside its module.

In the folder are migrations `0001_*.sql`, `0002_*.sql`, …, each applied once, and `views.sql`, which may use the core's
tables and views. A table that a stage may fill has the slice columns (suite, run_id, condition, seed, stage).

Packs and shards carry every such table whole, unless the folder says otherwise: `carry/NAME.sql` is the query that
fills NAME.parquet, of the temporary tables `chosen` (the stages) and `items`; one without a statement leaves the table
NAME out. `load/TABLE.sql` is the query that makes rows of TABLE of the carried files, which are there as
`carried_NAME`.

Adding a column to `evaluations` is the one change of a core table that a search may make.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from evolora_core.engine.plugins import sql_folders
from evolora_core.errors import StoreError
from evolora_core.store.said import duckdb_says

CORE = "core"
_COMMENT = re.compile(r"--.*")


@dataclass(frozen=True)
class Owner:
    """Who brings tables and views, and the folder with the SQL."""

    name: str
    folder: Path

    def migrations(self) -> list[Path]:
        """The scripts in order; script i leads to version i + 1. Raises StoreError for a gap between their numbers."""
        files = sorted(self.folder.glob("[0-9]*.sql"))
        if [int(file.name[:4]) for file in files] != list(range(1, len(files) + 1)):
            raise StoreError(f"{self.folder}: numbers must run 0001, 0002, … without gaps")
        return files

    def views(self) -> list[Path]:
        """The script with the views; none if there are none."""
        return [file for file in [self.folder / "views.sql"] if file.is_file()]

    def queries(self, kind: str) -> dict[str, str]:
        """Name -> query of the files in `carry` or `load`; "" for a file without a statement."""
        texts = {file.stem: file.read_text(encoding="utf-8") for file in sorted((self.folder / kind).glob("*.sql"))}
        return {name: text if _COMMENT.sub("", text).strip() else "" for name, text in texts.items()}


@cache
def owners() -> tuple[Owner, ...]:
    """The core, then the searches that have SQL, by name. No search is imported."""
    return (Owner(CORE, Path(__file__).with_name("sql")), *(Owner(*own) for own in sql_folders().items()))


def run_script(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Execute a file of SQL. Raises StoreError that names it."""
    try:
        connection.execute(file.read_text(encoding="utf-8"))
    except duckdb.Error as error:
        raise StoreError(
            f"{file}: cannot be applied to the store ({duckdb_says(error)}); `evolora store rebuild` makes it anew"
        ) from error
