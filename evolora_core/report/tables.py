"""Tables: raw rows of the store, shown as Markdown, LaTeX (booktabs), CSV and on a terminal.

CSV has the raw numbers under the names of the views; the other forms are for people: percent, points, intervals in
brackets.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

NONE = "–"


@dataclass(frozen=True)
class Column:
    """A column that people read: its heading and how a row of the data fills it."""

    heading: str
    cell: Callable[[dict[str, Any]], str]
    left: bool = False  # text is set left, numbers right


@dataclass(frozen=True)
class Table:
    """Raw data and the columns in which people see it: one visible row per row, or per `key` of long data."""

    name: str
    caption: str
    data: pd.DataFrame
    columns: Sequence[Column]
    key: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """Raw rows as flat objects; missing values are None."""
        return rows_of(self.data)

    def cells(self) -> list[list[str]]:
        """What people see, row by row, of the numbers that the CSV has."""
        records = [{name: csv_number(value) for name, value in row.items()} for row in self.records()]
        rows = {tuple(row[k] for k in self.key) or i: row for i, row in reversed(list(enumerate(records)))}
        return [[column.cell(row) for column in self.columns] for row in reversed(rows.values())]

    def to_csv(self) -> str:
        """Raw numbers, 12 significant digits."""
        return csv(self.data)

    def to_markdown(self) -> str:
        """A GitHub table, its columns padded to equal widths."""
        headings = [_markdown(column.heading) for column in self.columns]
        cells = [[_markdown(text) for text in row] for row in self.cells()]
        widths = [max(2, *map(len, column)) for column in zip(headings, *cells, strict=True)]
        rule = [("-" * w if c.left else "-" * (w - 1) + ":") for c, w in zip(self.columns, widths, strict=True)]
        lines = [self._padded(headings, widths), rule, *(self._padded(row, widths) for row in cells)]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def _padded(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            text.ljust(width) if column.left else text.rjust(width)
            for column, text, width in zip(self.columns, row, widths, strict=True)
        ]

    def to_latex(self) -> str:
        r"""A `table` environment; the document needs \usepackage{booktabs}."""
        alignment = "".join("l" if column.left else "r" for column in self.columns)
        body = [" & ".join(map(_tex, row)) + r" \\" for row in self.cells()]
        return "\n".join(
            [
                r"\begin{table} % \usepackage{booktabs}",
                r"  \centering",
                *([rf"  \caption{{{_tex(self.caption)}}}"] if self.caption else []),
                *([rf"  \label{{tab:{self.name.replace('_', '-')}}}"] if self.caption else []),
                rf"  \begin{{tabular}}{{{alignment}}}",
                r"    \toprule",
                "    " + " & ".join(_tex(c.heading) for c in self.columns) + r" \\",
                r"    \midrule",
                *(f"    {line}" for line in body),
                r"    \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
                "",
            ]
        )


def csv(data: pd.DataFrame) -> str:
    """Comma-separated values with 12 significant digits: sums of floats are not exact beyond."""
    return data.to_csv(index=False, float_format="%.12g", lineterminator="\n")


def csv_number(value: Any) -> Any:
    """A float as a CSV of ours gives it; anything else as it is."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def rows_of(data: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as flat objects; missing values are None."""
    rows = data.astype(object).where(data.notna(), None).to_dict(orient="records")
    return [{str(key): value for key, value in row.items()} for row in rows]


def words(heading: str, key: str = "") -> Column:
    """A column of text, which is set left; `key` where the data call it otherwise than its heading."""
    return Column(heading, lambda r: r[key or heading], left=True)


def percent(acc: float | None, lo: float | None = None, hi: float | None = None) -> str:
    """`43.1 [41.0, 45.3]`: shares as percent with their interval."""
    if acc is None:
        return NONE
    return f"{100 * acc:.1f}" + (f" [{100 * lo:.1f}, {100 * hi:.1f}]" if lo is not None and hi is not None else "")


def difference(diff: float, lo: float, hi: float) -> str:
    """`+4.2 [+1.0, +7.3]`: a difference of shares in percentage points with its interval."""
    return f"{100 * diff:+.1f} [{100 * lo:+.1f}, {100 * hi:+.1f}]"


def p_value(p: float) -> str:
    """Three decimals, or that it is smaller."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_equals(p: float) -> str:
    """`p = 0.012` or `p < 0.001`, as in a sentence."""
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def share(part: float | None, whole: float | None) -> str:
    """`0.24`: a part relative to the whole; a dash where there is neither."""
    return f"{part / whole:.2f}" if part and whole else NONE


def number(key: str, form: str) -> Callable[[dict[str, Any]], str]:
    """A cell with a number in a format; a dash where there is none."""
    return lambda r: NONE if r[key] is None else form.format(r[key])


def _markdown(text: str) -> str:
    """A text that cannot end its cell or its row."""
    return " ".join(text.replace("|", r"\|").split())


_TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "|": "$|$",
    "<": "$<$",
    ">": "$>$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_TEX |= {character: "\\" + character for character in "&%$#_{}"}
_TEX |= {  # LaTeX knows these in formulas alone
    character: f"${command}$"
    for character, command in {
        "τ": r"\tau", "θ": r"\theta", "β": r"\beta", "γ": r"\gamma", "λ": r"\lambda", "Δ": r"\Delta",
        "₀": "_0", "¹": "^1", "²": "^2", "³": "^3", "→": r"\to", "×": r"\times", "·": r"\cdot", "±": r"\pm",
        "≤": r"\le", "≥": r"\ge", "½": r"\frac12", "¼": r"\frac14",
    }.items()
}  # fmt: skip


def _tex(text: str) -> str:
    """Escape what LaTeX would read as a command, or as an option of the line break before it."""
    escaped = "".join(_TEX.get(character, character) for character in text)
    escaped = re.sub(r"(?<![\w.$-])-(?=\d)", "$-$", escaped)  # a hyphen before a number is a minus
    power = r"(?<![\w.-])(\d+(?:\.\d+)?)e([+-]?)0*(\d+)\b"  # of a whole number, not of an id such as ood-9b14a4e3
    escaped = re.sub(power, lambda e: rf"{e[1]}$\times10^{{{e[2].replace('+', '')}{e[3]}}}$", escaped)
    return "{[}" + escaped[1:] if escaped.startswith("[") else escaped
