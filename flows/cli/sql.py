"""`evolora sql`."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from flows.cli._app import Json, show


def register(app: App) -> None:
    """Add the command."""
    app.command(sql, help_epilogue='Example: `evolora sql "SELECT condition, holdout_id_acc FROM paper_table"`')


def sql(
    query: Annotated[str, Parameter(help="One SQL statement that only reads.")],
    /,
    *,
    format: Annotated[
        Literal["table", "csv", "json", "md", "latex"], Parameter(help="How the answer is printed.")
    ] = "table",
    json: Json = False,
) -> None:
    """Query the store, read-only."""
    from evolora_core.home import home_path

    if json or format in ("table", "json"):
        from evolora_core.store import query as ask

        show(ask(home_path(), query).records(), json or format == "json")
        return
    from pandas.api.types import is_numeric_dtype

    from evolora_core.report.tables import Column, Table
    from evolora_core.store import frame

    data = frame(home_path(), query)
    columns = [Column(str(name), _reader(str(name)), left=not is_numeric_dtype(data[name])) for name in data.columns]
    table = Table("query", "", data, columns)
    print({"csv": table.to_csv, "md": table.to_markdown, "latex": table.to_latex}[format](), end="")


def _reader(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: _text(row[name])


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
