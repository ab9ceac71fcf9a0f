"""The law of merging in a pack: what was fitted, how near it comes to larger subsets, and the curves."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from evolora_core.report.plots import STYLE
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number, words
from evolora_core.searches.merging.pack.looks import BLACK
from evolora_core.searches.merging.pack.plots import BAND, legend

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", BLACK)  # of base sizes, smallest first
SIGNS = {
    "floor": "L*", "width_gain": "B", "width_power": "β", "merge_gain": "A", "merge_power": "γ", "shift": "b",
}  # fmt: skip

_FITS = """
    SELECT seed, method, floor, width_gain, width_power, merge_gain, merge_power, shift, fit_error, law_error,
        same_error, law_error / same_error AS ratio, points
    FROM law_fit JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    ORDER BY seed, list_position($methods::VARCHAR[], method), method
"""
_POINTS = """
    SELECT seed, method, parameters, merged, subsets, loss, predicted, predicted_lo, predicted_hi, same_as_before,
        fitted
    FROM law_point JOIN complete_seeds USING (suite, seed) WHERE suite = $suite AND merged >= $fewest
    ORDER BY seed, list_position($methods::VARCHAR[], method), method, parameters, merged
"""


def fit_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per seed and method: the six parameters of the law (N in units of 100,000 parameters), root mean square
    error of the fitted means, mean absolute errors of the law and of "the same as before" on the predicted ones (nats),
    their ratio, and how many were predicted.
    """
    rows = stored.frame(_FITS, methods=_settings(stored).get("methods", []))
    return rows.assign(ratio=rows["ratio"].where(np.isfinite(rows["ratio"].astype(float))))


def fit_table(suite: str, data: pd.DataFrame) -> Table:
    """The law of each method, and how well it predicts."""
    columns = [
        Column("seed", number("seed", "{:.0f}")),
        words("method"),
        *(Column(sign, number(name, "{:.3g}")) for name, sign in SIGNS.items()),
        Column("error of the fit, nats", number("fit_error", "{:.4f}")),
        Column("predicted means", number("points", "{:.0f}")),
        Column("error of the law, nats", number("law_error", "{:.4f}")),
        Column("of the same as before, nats", number("same_error", "{:.4f}")),
        Column("ratio", number("ratio", "{:.2f}")),
    ]
    caption = f"{suite}: the fitted law by method, and mean absolute errors on the predicted means"
    return Table("law_fits", caption, data, columns)


def point_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per seed, method, base size and number of specialists that the law was judged on: measured mean loss,
    prediction with 95 % interval, and the mean loss of the largest fitted subsets (nats).
    """
    settings = _settings(stored)
    return _points(stored, settings.get("first_predicted", 0)).drop(columns="fitted")


def point_table(suite: str, data: pd.DataFrame) -> Table:
    """Measured losses beside what both say."""
    columns = [
        Column("seed", number("seed", "{:.0f}")),
        words("method"),
        Column("parameters", number("parameters", "{:,.0f}")),
        Column("merged", number("merged", "{:.0f}")),
        Column("subsets", number("subsets", "{:.0f}")),
        Column("measured, nats", number("loss", "{:.4f}")),
        Column("predicted, nats", _predicted),
        Column("same as before, nats", number("same_as_before", "{:.4f}")),
    ]
    caption = f"{suite}: mean losses of the predicted subsets, predictions with 95 % intervals"
    return Table("law_points", caption, data, columns)


def _predicted(row: dict[str, Any]) -> str:
    """`0.2312 [0.2201, 0.2410]`."""
    if row["predicted"] is None:
        return NONE
    return f"{row['predicted']:.4f} [{row['predicted_lo']:.4f}, {row['predicted_hi']:.4f}]"


def law_points(stored: StoredSuite) -> pd.DataFrame:
    """The same of all numbers of specialists; `fitted`: the law was fitted on it."""
    return _points(stored, 0)


def law(points: pd.DataFrame) -> Figure:
    """Loss against merged specialists, a panel for each method (and seed), a colour for each base size: measured means,
    the fitted law with its 95 % interval, and "the same as before" from the largest fitted subsets on.
    """
    with matplotlib.rc_context(fname=STYLE):
        groups = list(points.groupby(["seed", "method"], sort=False))
        columns = min(2, len(groups))
        rows = -(-len(groups) // columns)
        figure = Figure(figsize=(1.0 + 3.7 * columns, 1.0 + 2.7 * rows))
        panels = np.atleast_1d(figure.subplots(rows, columns, sharex=True)).ravel()
        sizes = sorted(set(points["parameters"]))
        colours = {size: COLOURS[place % len(COLOURS)] for place, size in enumerate(sizes)}
        seeds = points["seed"].nunique()
        for panel, ((seed, method), own) in zip(panels, groups, strict=False):
            for size, line in own.groupby("parameters"):
                _size(panel, colours[int(str(size))], line)
            panel.set_title(f"{method}, seed {seed}" if seeds > 1 else str(method))
            panel.set(xlabel="merged specialists", ylabel="loss, nats per gold token")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        for panel in panels[len(groups) :]:
            panel.set_visible(False)
        dot: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 5, "color": BLACK}
        handles: list[Artist] = [
            *(Line2D([], [], color=colour, label=f"{size:,} parameters") for size, colour in colours.items()),
            Line2D([], [], label="mean, fitted on", **dot),
            Line2D([], [], label="mean, not fitted on", markerfacecolor="white", **dot),
            Line2D([], [], color=BLACK, linewidth=1.2, linestyle=":", label="same as before"),
            Patch(color="#bbbbbb", alpha=0.5, linewidth=0, label="the law: 95 % interval"),
        ]
        legend(figure, handles)
        return figure


def _size(panel: Axes, colour: str, line: pd.DataFrame) -> None:
    """One base size."""
    panel.fill_between(
        line["merged"], line["predicted_lo"], line["predicted_hi"], color=colour, alpha=BAND, linewidth=0
    )
    panel.plot(line["merged"], line["predicted"], color=colour, linewidth=1.2)
    fitted = line["fitted"].astype(bool)
    later = line[~fitted | (line["merged"] == line.loc[fitted, "merged"].max())]
    panel.plot(later["merged"], later["same_as_before"], color=colour, linewidth=1.2, linestyle=":")
    for chosen, face in ((fitted, colour), (~fitted, "white")):
        panel.plot(
            line.loc[chosen, "merged"], line.loc[chosen, "loss"], linestyle="", marker="o", markersize=5, color=colour,
            markerfacecolor=face, zorder=3,
        )  # fmt: skip


def _settings(stored: StoredSuite) -> dict[str, Any]:
    return stored.config.get("law") or {}


def _points(stored: StoredSuite, fewest: int) -> pd.DataFrame:
    return stored.frame(_POINTS, methods=_settings(stored).get("methods", []), fewest=fewest)
