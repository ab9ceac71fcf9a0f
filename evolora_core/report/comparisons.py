"""The declared comparisons of a suite, as a table and as a plot."""

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from evolora_core.language.splits import HOLDOUTS, title
from evolora_core.report.plots import STYLE
from evolora_core.report.sections import PackPlot, PackTable
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, difference, p_value, words
from evolora_core.statistics.inference import MIN_SEEDS, UNDECIDED

_ROWS = """
    SELECT c.* EXCLUDE suite FROM comparison AS c JOIN suites USING (suite) WHERE suite = $suite
    ORDER BY list_position($holdouts, split), split, list_position(conditions, a), list_position(conditions, b), routing
"""


def comparison_rows(stored: StoredSuite) -> pd.DataFrame:
    """The rows of the view `comparison`, without the suite."""
    return stored.frame(_ROWS, holdouts=list(HOLDOUTS))


def comparison_table(suite: str, data: pd.DataFrame) -> Table:
    """The declared comparisons with their verdicts."""
    columns = [
        Column("split", lambda r: title(r["split"]), left=True),
        words("a"),
        words("b"),
        words("routing"),
        Column("a − b, points", lambda r: difference(r["diff"], r["lo"], r["hi"])),
        Column("p", lambda r: p_over_seeds(r["p"], r["seeds"])),
        Column("Holm p", lambda r: p_over_seeds(r["p_holm"], r["seeds"])),
        Column("seeds", lambda r: str(r["seeds"])),
        Column("items", lambda r: str(r["n"])),
        words("verdict"),
        words("note"),
    ]
    if data["regime"].fillna("").any():
        columns.insert(0, Column("regime", lambda r: r["regime"] or "", left=True))
    caption = f"{suite}: declared comparisons, differences in percentage points of accuracy"
    return Table("comparisons", caption, data, columns)


def p_over_seeds(p: float, seeds: int) -> str:
    """p of a test over seeds; "–" where they are too few for it, and verdicts go by each seed's own test."""
    return p_value(p) if seeds >= MIN_SEEDS else "–"


def plotted_comparisons(stored: StoredSuite) -> pd.DataFrame:
    """What the plot shows of the rows."""
    return comparison_rows(stored)[["split", "a", "b", "routing", "diff", "lo", "hi", "verdict"]]


def draw_comparisons(declared: pd.DataFrame) -> Figure:
    """The declared comparisons: what a has more than b, with 95 % intervals; filled where there is a verdict.

    `declared`: split, a, b, routing, diff, lo, hi (shares), verdict.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.0, 1.1 + 0.42 * len(declared)))
        panel = figure.subplots()
        for y, row in enumerate(declared.to_dict("records")):
            winner = {row["a"]: "#0072B2", row["b"]: "#D55E00"}.get(row["verdict"], "#7f7f7f")
            diff, lo, hi = (100 * row[column] for column in ("diff", "lo", "hi"))
            reach = [
                [max(0.0, diff - lo)],
                [max(0.0, hi - diff)],
            ]  # of rounding, an interval without width may miss diff
            panel.errorbar(
                [diff], [y], xerr=reach, fmt="o", color=winner, markersize=7, elinewidth=1.6, capsize=3,
                markerfacecolor="white" if row["verdict"] == UNDECIDED else winner,
            )  # fmt: skip
        labels = [
            f"{row['a']} − {row['b']}\n{title(row['split'])}"
            + ("" if row["routing"] == "headline" else f", {row['routing']} routing")
            for row in declared.to_dict("records")
        ]
        panel.axvline(0, color="#444444", linewidth=0.8, linestyle="--")
        panel.set_yticks(range(len(labels)), labels, fontsize=8)
        panel.set_ylim(len(labels) - 0.5, -0.5)
        panel.grid(axis="y", visible=False)
        for side, x, hint in (("left", 0, "← the second is better"), ("right", 1, "the first is better →")):
            panel.text(x, 1.01, hint, transform=panel.transAxes, ha=side, va="bottom", fontsize=8, color="#444444")
        panel.set(xlabel="difference in accuracy, points, with 95 % intervals" + _LEGEND)
        return figure


_LEGEND = f"\n(filled: verdict, with fewer than {MIN_SEEDS} seeds about these runs only; open: undecided)"

COMPARISONS = PackTable(comparison_rows, (comparison_table,), texts=("note", "regime"))
COMPARISON_PLOT = PackPlot(plotted_comparisons, draw_comparisons)
