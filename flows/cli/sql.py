"""`evolora sql`."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter, validators

from evolora_core.foreign.files import MIB
from evolora_core.foreign.text import one_line, printable, printable_lines
from flows.cli._app import Json, say, shown

if TYPE_CHECKING:
    import pandas as pd


def register(app: App) -> None:
    """Add the command."""
    app.command(sql, help_epilogue='Example: `evolora sql "SELECT condition, holdout_id_acc FROM paper_table"`')


def sql(
    query: Annotated[str, Parameter(help="One SQL statement that only reads.")],
    /,
    *,
    format: Annotated[
        Literal["table", "csv", "json", "md", "latex", "parquet"],
        Parameter(help="How the answer is printed; parquet is written to --out."),
    ] = "table",
    out: Annotated[Path | None, Parameter(help="File for --format parquet; must not exist.")] = None,
    seconds: Annotated[
        float, Parameter(help="A query that takes longer is ended.", validator=validators.Number(gte=0.1, lte=86_400))
    ] = 20,
    memory: Annotated[
        int, Parameter(help="Megabytes that a query may use.", validator=validators.Number(gte=64, lte=1_000_000))
    ] = 1024,
    json: Json = False,
) -> None:
    """Query the store, read-only."""
    from evolora_core.engine.home import home_path
    from evolora_core.errors import ConfigError
    from evolora_core.store import bounded

    if (format == "parquet") != (out is not None):
        raise ConfigError("--out: goes with --format parquet, and --format parquet needs it")
    if out is not None and out.exists():
        raise ConfigError(f"--out {out}: exists; name another file")
    ask = partial(bounded, home_path(), query, seconds=seconds, memory=memory * MIB)
    if json or format in ("table", "json"):
        as_json = json or format == "json"
        say(ask(tell=lambda answer: shown(answer.records(), as_json), table=False))
        return
    if out is not None:
        print(ask(tell=partial(_written, out), table=True))
        return
    print(ask(tell=lambda answer: _table(answer, format), table=True), end="")


def _written(out: Path, data: "pd.DataFrame") -> str:
    from evolora_core.errors import ConfigError

    try:
        data.to_parquet(out, index=False)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({one_line(error, 100)})") from None
    return f"{out}: {len(data)} rows"


def _table(data: "pd.DataFrame", format: str) -> str:
    from pandas.api.types import is_numeric_dtype

    from evolora_core.report.tables import Column, Table

    columns = [
        Column(printable(str(name)), _reader(str(name), format), left=not is_numeric_dtype(data[name]))
        for name in data.columns
    ]
    table = Table("query", "", data, columns)
    text = {"csv": table.to_csv, "md": table.to_markdown, "latex": table.to_latex}[format]()
    return printable_lines(text) if sys.stdout.isatty() else text  # a terminal must not obey it


def _reader(name: str, format: str) -> Callable[[dict[str, Any]], str]:
    if format == "csv":  # data: what reads it gets it as it is
        return lambda row: _text(row[name])
    return lambda row: printable(_text(row[name]))


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
