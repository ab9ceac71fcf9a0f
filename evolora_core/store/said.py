"""What DuckDB says of an error."""

import duckdb


def duckdb_says(error: duckdb.Error) -> str:
    """Its message as one line, without the listing of the statement, which begins with `LINE 1: `."""
    return " ".join(str(error).split("LINE ")[0].split())
