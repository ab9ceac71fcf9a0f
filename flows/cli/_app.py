"""The root of the command line, and how commands show tables."""

import json
import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

from cyclopts import App, Parameter, validators

from evolora_core import __version__

app = App(
    name="evolora",
    help="Evolve small LoRA adapters on a frozen language model, and compare with fine-tuning at equal compute.",
    help_format="markdown",
    help_epilogue="Start with `evolora run configs/suites/quickstart.yaml`. Each command has its own --help.",
    version=__version__,
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,  # `flows.cli.main` says how to go on
)

AtLeastOne = Parameter(validator=validators.Number(gte=1))  # of a number, or of each
Json = Annotated[bool, Parameter(name="--json", help="Print a list of flat objects instead of a table.")]


def show(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print rows as a table with aligned columns, or as JSON."""
    if as_json:
        print(json.dumps([{name: _plain(value) for name, value in row.items()} for row in rows], indent=1, default=str))
        return
    if not rows:
        print("nothing", file=sys.stderr)
        return
    cells = [[_cell(row.get(name)) for name in rows[0]] for row in rows]
    widths = [max(map(len, column)) for column in zip(list(rows[0]), *cells, strict=True)]
    right = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in rows[0]]
    for line in [list(rows[0]), *cells]:
        padded = [
            text.rjust(width) if numeric else text.ljust(width)
            for text, width, numeric in zip(line, widths, right, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _plain(value: Any) -> Any:
    """Numbers that JSON has: of the store's decimals the value, of those that are none nothing."""
    value = float(value) if isinstance(value, Decimal) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
