"""`evolora sql`."""

import csv
import io
import sys
from collections.abc import Callable
from functools import partial
from numbers import Number
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter, validators

from evolora_core.engine.home import home_path
from evolora_core.errors import ConfigError
from evolora_core.foreign.files import MIB
from evolora_core.foreign.text import one_line, printable, printable_lines
from flows.cli._app import Json, say, shown

if TYPE_CHECKING:
    import pyarrow as pa

    from evolora_core.store.query import Result


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
    from evolora_core.store import bounded

    if (format == "parquet") != (out is not None):
        raise ConfigError("--out: goes with --format parquet, and --format parquet needs it")
    if json and out is not None:
        raise ConfigError("--json: prints, and --format parquet writes a file; take one of them")
    if out is not None and out.exists():
        raise ConfigError(f"--out {out}: exists; name another file")
    ask = partial(bounded, home_path(), query, seconds=seconds, memory=memory * MIB)
    if json or format in ("table", "json"):
        as_json = json or format == "json"
        say(ask(tell=lambda answer: shown(answer.records(), as_json), table=False))
        return
    if out is not None:
        _write(ask, out)
        return
    tell = _csv if format == "csv" else partial(_table, format=format)
    print(ask(tell=tell, table=False), end="")


def _write(ask: Callable[..., str], out: Path) -> None:
    """Write the answer as Parquet, whole or not at all: a query may be ended while it writes."""
    try:
        work = TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({error.strerror})") from None
    with work as folder:
        unfinished = Path(folder) / "rows.parquet"
        rows = ask(tell=partial(_parquet, out, unfinished), table=True)
        unfinished.replace(out)
    print(f"{out}: {rows} rows")


def _parquet(out: Path, unfinished: Path, data: "pa.Table") -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.write_table(data, unfinished)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({one_line(error, 100)})") from None
    except pa.ArrowException as error:
        raise ConfigError(f"SQL: no form in Parquet ({one_line(error, 100)}); cast that column to text") from None
    return str(data.num_rows)


def _csv(answer: "Result") -> str:
    """Data: what reads it gets it as it is. Floats have 12 significant digits, as their sums are not exact beyond."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(answer.columns)
    rows.writerows([_text(value, 12) for value in row] for row in answer.rows)
    return _shown(text.getvalue())


def _table(answer: "Result", format: str) -> str:
    """For people: Markdown or LaTeX."""
    import pandas as pd

    from evolora_core.report.tables import Column, Table

    def column(name: str, values: "pd.Series[Any]") -> Column:
        left = not all(isinstance(value, Number) for value in values if value is not None)
        digits = 4 if format == "latex" else 6
        return Column(printable(name), lambda row: printable(_text(row[name], digits)), left)

    data = pd.DataFrame(answer.rows, columns=answer.columns, dtype=object)
    table = Table("query", "", data, [column(name, data[name]) for name in answer.columns])
    return _shown({"md": table.to_markdown, "latex": table.to_latex}[format]())


def _shown(text: str) -> str:
    return printable_lines(text) if sys.stdout.isatty() else text  # a terminal must not obey it


def _text(value: object, digits: int) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
