"""The root of the command line, and how commands show tables."""

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter, validators

from evolora_core import __version__
from evolora_core.foreign.text import printable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from evolora_core.engine.progress import Progress


def default_shown(value: Any) -> Any:
    """A default as a user would type it; None leaves it out of the help, as of a flag."""
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return None if value in ("", None) or value is False else str(value)


app = App(
    name="evolora",
    help="Evolve small LoRA adapters on a frozen language model, and compare with fine-tuning at equal compute.",
    help_format="markdown",
    help_epilogue="Start with `evolora run configs/suites/quickstart.yaml`. Each command has its own --help.",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=default_shown),
    suppress_keyboard_interrupt=False,  # `flows.cli.main` says how to go on
)

app.register_install_completion_command(help="Complete commands and options with the Tab key, in bash, zsh or fish.")

AtLeastOne = Parameter(validator=validators.Number(gte=1, lte=1_000_000))  # of a number, or of each
FromZero = Parameter(validator=validators.Number(gte=0, lte=1_000_000))
AnyId = Parameter(validator=validators.Number(gte=0, lt=2**63))
Settings = Annotated[
    list[str] | None,
    Parameter(name="--set", help="KEY=VALUE with a dotted key, such as ecology.generations=4; may be repeated."),
]
Json = Annotated[bool, Parameter(name="--json", help="Print a list of flat objects instead of a table.")]


def show(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print rows as a table with aligned columns, or as JSON."""
    say(shown(rows, as_json))


def say(text: str) -> None:
    """Print what `shown` gave."""
    print(text or "no rows", file=sys.stdout if text else sys.stderr)


def shown(rows: Sequence[dict[str, Any]], as_json: bool) -> str:
    """Rows as a table with aligned columns, which fits the terminal, or as JSON; no text for a table without rows."""
    if as_json:
        return json.dumps([_plain(row) for row in rows], indent=1, default=str)
    if not rows:
        return ""
    cells = [[_cell(name, row.get(name)) for name in rows[0]] for row in rows]
    heads = [printable(name) for name in rows[0]]
    widths = _widths(list(zip(heads, *cells, strict=True)), shutil.get_terminal_size((0, 0)).columns)
    right = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in rows[0]]
    lines = []
    for row in [heads, *cells]:
        wrapped = [_wrapped(text, width) for text, width in zip(row, widths, strict=True)]
        for line in zip_longest(*wrapped, fillvalue=""):
            padded = [
                text.rjust(width) if numeric else text.ljust(width)
                for text, width, numeric in zip(line, widths, right, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Characters of each column. Where all do not fit into `room` (0: a pipe, which takes any), the widest give way, to
    the length of their longest word; where that is not enough, to words of 24 characters, or no column does.
    """
    natural = [max(map(len, column)) for column in columns]
    if not room:
        return natural
    words = [max(len(word) for cell in column for word in cell.split() or [" "]) for column in columns]
    room -= 2 * (len(columns) - 1)
    widths = [min(width, max(room, 1)) for width in natural]
    for least in (words, [min(word, 24) for word in words]):
        while sum(widths) > room and (loose := [i for i, width in enumerate(widths) if width > least[i]]):
            widths[max(loose, key=widths.__getitem__)] -= 1
    return widths if sum(widths) <= room else natural


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a cell."""
    return [text] if len(text) <= width else textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def progress(label: str) -> "AbstractContextManager[Progress]":
    """What long work of a command reports to: a bar on a terminal, else a line now and then."""
    from tasks._progress import progress
    from tasks._worker import show_log

    show_log()
    return progress(label, lead=f"{label}: ")


def lasts(seconds: float) -> str:
    """`0.4 s`, `40 s`, `12 minutes` or `3.1 hours`."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _plain(value: Any) -> Any:
    """What JSON has: of the store's decimals the value, of numbers that are none nothing, keys as text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    value = float(value) if isinstance(value, Decimal) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(name: str, value: Any) -> str:
    """A value as one printable line: it may be a model's answer, or a name that somebody chose."""
    if value is None:
        return ""
    if isinstance(value, float) or ("flops" in name.lower() and isinstance(value, int)):  # whose digits are in --json
        return f"{value:.4g}"
    return printable(str(value))
