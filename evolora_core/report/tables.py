"""The tables of a pack: read from the views, shown as Markdown, LaTeX (booktabs), CSV and on a terminal.

CSV has the raw numbers under the names of the views; the other forms are for people: percent, points, intervals in
brackets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from evolora_core.errors import PackError
from evolora_core.store import frame

NONE = "–"
SPLITS = {"holdout_id": "in distribution", "holdout_ood": "out of distribution", "retention": "retention"}


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
        """What people see, row by row."""
        rows = {tuple(row[k] for k in self.key) or i: row for i, row in reversed(list(enumerate(self.records())))}
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
                r"\begin{table}",
                r"  \centering",
                *([rf"  \caption{{{_tex(self.caption)}}}"] if self.caption else []),
                rf"  \label{{tab:{self.name.replace('_', '-')}}}",
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


def paper_table(home: Path, suite: str) -> Table:
    """The headline: one row per condition, means over the complete seeds. Raises PackError if there is no such seed."""
    data = frame(home, "FROM paper_table WHERE suite = ?", [suite])
    if data.empty:
        raise PackError(f"{suite}: no seed is complete in every condition; see `evolora status`, then `evolora retry`")
    return shown_paper(suite, data)


def shown_paper(suite: str, data: pd.DataFrame) -> Table:
    """The headline of raw data."""
    columns = [
        Column("condition", lambda r: r["condition"], left=True),
        Column("seeds", lambda r: str(r["seeds"])),
        Column("in distribution %", _interval("holdout_id")),
        Column("out of distribution %", _interval("holdout_ood")),
        Column("retention %", _interval("retention")),
        Column("total FLOPs", number("total_flops", "{:.3g}")),
    ]
    return Table("paper_table", f"{suite}: accuracy, means over seeds with 95 % intervals", data, columns)


def economy_table(paper: Table) -> Table:
    """What it took: the other columns of the paper table."""
    columns = [
        Column("condition", lambda r: r["condition"], left=True),
        Column("generations", number("generations", "{:.0f}")),
        Column("episodes", number("episodes", "{:.0f}")),
        Column("net / episode", number("mean_net", "{:+.2f}")),
        Column("ROI", number("mean_roi", "{:.2f}")),
        Column("merges and sums", number("merges", "{:.1f}")),
        Column("QD coverage", number("qd_coverage", "{:.2f}")),
        Column("FLOPs / answer, all splits", number("cost_per_answer", "{:.3g}")),
        Column("training FLOPs", number("train_flops", "{:.3g}")),
        Column("total FLOPs", number("total_flops", "{:.3g}")),
    ]
    return Table("economy", "What it took, means over seeds", paper.data, columns)


def comparison_table(home: Path, suite: str) -> Table:
    """The declared comparisons with their verdicts."""
    data = frame(
        home,
        "SELECT c.* EXCLUDE suite FROM comparison AS c JOIN suites USING (suite) WHERE suite = ? "
        "ORDER BY list_position(['holdout_id', 'holdout_ood', 'retention'], split), list_position(conditions, a), "
        "list_position(conditions, b), routing",
        [suite],
    )
    return shown_comparisons(suite, data)


def shown_comparisons(suite: str, data: pd.DataFrame) -> Table:
    """The comparisons of raw data."""
    columns = [
        Column("split", lambda r: SPLITS[r["split"]], left=True),
        Column("a", lambda r: r["a"], left=True),
        Column("b", lambda r: r["b"], left=True),
        Column("routing", lambda r: r["routing"], left=True),
        Column("a − b, points", lambda r: difference(r["diff"], r["lo"], r["hi"])),
        Column("p", lambda r: p_value(r["p"])),
        Column("Holm p", lambda r: p_value(r["p_holm"])),
        Column("seeds", lambda r: str(r["seeds"])),
        Column("items", lambda r: str(r["n"])),
        Column("verdict", lambda r: r["verdict"], left=True),
        Column("note", lambda r: r["note"], left=True),
    ]
    if data["bare"].any():
        columns.append(Column("bare host", lambda r: r["bare"], left=True))
    if data["regime"].notna().any():
        columns.insert(0, Column("regime", lambda r: r["regime"] or "", left=True))
    caption = f"{suite}: declared comparisons, differences in percentage points of accuracy"
    return Table("comparisons", caption, data, columns)


def family_table(home: Path, suite: str) -> Table:
    """Accuracy by split and family, one column per condition."""
    data = frame(
        home,
        "SELECT split, family, condition, accuracy.seeds, n, acc, lo, hi FROM accuracy JOIN suites USING (suite) "
        "WHERE suite = ? AND arm = condition AND family <> '*' "
        "ORDER BY split, family, list_position(conditions, condition)",
        [suite],
    )
    return shown_families(suite, data)


def shown_families(suite: str, data: pd.DataFrame) -> Table:
    """Accuracy by family of raw data."""
    conditions = list(dict.fromkeys(data["condition"]))
    by_cell = {(r["split"], r["family"], r["condition"]): r for r in rows_of(data)}

    def cell(condition: str) -> Callable[[dict[str, Any]], str]:
        return lambda r: _cell(by_cell.get((r["split"], r["family"], condition)))

    columns = [
        Column("split", lambda r: SPLITS[r["split"]], left=True),
        Column("family", lambda r: r["family"], left=True),
        *(Column(f"{condition} %", cell(condition)) for condition in conditions),
    ]
    caption = f"{suite}: accuracy by family, 95 % intervals in brackets"
    return Table("by_family", caption, data, columns, key=("split", "family"))


def routing_table(home: Path, suite: str) -> Table:
    """Accuracy of every routing that was evaluated, one column per split; the headline routing comes first. `bare` is
    the number of seeds in which the bare host answered the whole split.
    """
    data = frame(
        home,
        "SELECT condition, arm, split, accuracy.seeds, n, acc, lo, hi, bare FROM accuracy JOIN suites USING (suite) "
        "LEFT JOIN (SELECT * EXCLUDE seeds FROM bare_host) USING (suite, condition, arm, split) "
        "WHERE suite = ? AND family = '*' ORDER BY list_position(conditions, condition), arm <> condition, arm, split",
        [suite],
    )
    return shown_routings(suite, data)


def shown_routings(suite: str, data: pd.DataFrame) -> Table:
    """Accuracy by routing of raw data."""
    by_cell = {(r["arm"], r["split"]): r for r in rows_of(data)}

    def cell(split: str) -> Callable[[dict[str, Any]], str]:
        return lambda r: _cell(by_cell.get((r["arm"], split)))

    columns = [
        Column("condition", lambda r: r["condition"], left=True),
        Column("routing", lambda r: r["arm"].partition(":")[2] or "headline", left=True),
        *(Column(f"{title} %", cell(split)) for split, title in SPLITS.items()),
        Column("bare host, of seeds", lambda r: f"{r['bare']:.0f} of {r['seeds']}" if r["bare"] else "", left=True),
    ]
    return Table("by_routing", f"{suite}: accuracy by routing", data, columns, key=("arm",))


_COMPUTE = """
    WITH spent AS (
        SELECT * FROM compute WHERE suite = $suite AND (condition IN ('shared', 'tuning')
            OR seed IN (SELECT seed FROM complete_seeds WHERE suite = $suite))
    ),
    counted AS (SELECT condition, count(DISTINCT run_id) AS runs FROM spent GROUP BY ALL)
    SELECT condition, purpose, any_value(runs) AS runs, sum(flops) / any_value(runs) AS flops,
        sum(seconds) / any_value(runs) AS seconds
    FROM spent JOIN counted USING (condition) GROUP BY ALL ORDER BY ALL
"""


def compute_table(home: Path, suite: str) -> Table:
    """Budget FLOPs by condition and purpose: means over the runs of a condition, those without the purpose too. Of
    conditions, the complete seeds; `shared` and `tuning` have all.
    """
    return shown_compute(suite, frame(home, _COMPUTE, {"suite": suite}))


def shown_compute(suite: str, data: pd.DataFrame) -> Table:
    """Compute of raw data."""
    columns = [
        Column("condition", lambda r: r["condition"], left=True),
        Column("purpose", lambda r: r["purpose"], left=True),
        Column("runs", lambda r: str(r["runs"])),
        Column("budget FLOPs / run", number("flops", "{:.3g}")),
        Column("seconds / run", number("seconds", "{:.1f}")),
    ]
    return Table("compute", f"{suite}: where the compute went", data, columns)


def csv(data: pd.DataFrame) -> str:
    """Comma-separated values with 12 significant digits: sums of floats are not exact beyond."""
    return data.to_csv(index=False, float_format="%.12g", lineterminator="\n")


def rows_of(data: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as flat objects; missing values are None."""
    return [
        {str(key): None if pd.api.types.is_scalar(value) and pd.isna(value) else value for key, value in row.items()}
        for row in data.to_dict(orient="records")
    ]


def percent(acc: float | None, lo: float | None = None, hi: float | None = None) -> str:
    """`43.1 [41.0, 45.3]`: shares as percent with their interval."""
    if acc is None:
        return NONE
    return f"{100 * acc:.1f}" + (f" [{100 * lo:.1f}, {100 * hi:.1f}]" if lo is not None and hi is not None else "")


def difference(diff: float, lo: float, hi: float) -> str:
    """`+4.2 [1.0, 7.3]`: a difference of shares in percentage points with its interval."""
    return f"{100 * diff:+.1f} [{100 * lo:+.1f}, {100 * hi:+.1f}]"


def p_value(p: float) -> str:
    """Three decimals, or that it is smaller."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def share(part: float | None, whole: float | None) -> str:
    """`0.24`: a part relative to the whole; a dash where there is neither."""
    return f"{part / whole:.2f}" if part and whole else NONE


def _cell(row: dict[str, Any] | None) -> str:
    return NONE if row is None else percent(row["acc"], row["lo"], row["hi"])


def _interval(split: str) -> Callable[[dict[str, Any]], str]:
    return lambda r: percent(r[f"{split}_acc"], r[f"{split}_lo"], r[f"{split}_hi"])


def number(key: str, form: str) -> Callable[[dict[str, Any]], str]:
    """A cell with a number in a format; a dash where there is none."""
    return lambda r: NONE if r[key] is None else form.format(r[key])


def _markdown(text: str) -> str:
    """A text that cannot end its cell or its row."""
    return " ".join(text.replace("|", r"\|").split())


_TEX = {"\\": r"\textbackslash{}", "–": "--", "−": "$-$", "<": "$<$", ">": "$>$", "~": r"\textasciitilde{}"}
_TEX |= {character: "\\" + character for character in "&%$#_{}"}


def _tex(text: str) -> str:
    """Escape what LaTeX would read as a command."""
    return "".join(_TEX.get(character, character) for character in text)
