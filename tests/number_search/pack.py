"""What packs of the number search show."""

from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from evolora_core.report import Column, PackPlot, PackTable, Sections, StoredSuite, Table
from evolora_core.report.accuracies import ACCURACY
from evolora_core.report.comparisons import COMPARISON_PLOT, COMPARISONS
from evolora_core.report.compute import COMPUTE
from evolora_core.report.plots import STYLE, legend_below, looks_of
from evolora_core.report.tables import number, percent, words

LOOKS = {"evolved": ("#0072B2", "o")}


def number_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition: condition, seeds, error, acc, lo, hi."""
    return stored.frame("SELECT * EXCLUDE suite FROM number_table WHERE suite = $suite ORDER BY condition")


def number_table(suite: str, rows: pd.DataFrame) -> Table:
    """How near the numbers came."""
    columns = [
        words("condition"),
        Column("error", number("error", "{:.3f}")),
        Column("right %", lambda r: percent(r["acc"], r["lo"], r["hi"])),
    ]
    return Table("number_table", f"{suite}: errors of the last step", rows, columns)


def error_lines(stored: StoredSuite) -> pd.DataFrame:
    """condition, step and error, means over the complete seeds."""
    sql = "SELECT condition, step, avg(error) AS error FROM number_steps JOIN complete_seeds USING (suite, seed)"
    return stored.frame(f"{sql} WHERE suite = $suite GROUP BY ALL ORDER BY ALL")


def draw_errors(rows: pd.DataFrame) -> Figure:
    """Errors over steps, a line for each condition."""
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(5.0, 3.5))
        panel = figure.subplots()
        looks = looks_of(rows["condition"], LOOKS)
        for condition, own in rows.groupby("condition"):
            panel.plot(own["step"], own["error"], color=looks[str(condition)][0])
        panel.set(xlabel="step", ylabel="error")
        legend_below(figure, looks, line=True)
        return figure


def checks(stored: StoredSuite) -> dict[str, Any]:
    """Errors are distances."""
    (least,) = stored.frame("SELECT min(error) AS least FROM number_steps WHERE suite = $suite")["least"]
    return {"negative_errors": int(least < 0)}


SECTIONS = Sections(
    tables={
        "number_table": PackTable(number_rows, (number_table,)),
        "comparisons": COMPARISONS,
        "accuracy": ACCURACY,
        "compute": COMPUTE,
    },
    plots={"comparisons": COMPARISON_PLOT, "errors": PackPlot(error_lines, draw_errors)},
    headline="number_table",
    checks=checks,
)
