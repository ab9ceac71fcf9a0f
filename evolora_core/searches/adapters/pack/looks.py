"""How the arms of the adapter search look in every plot and map."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evolora_core.report import plots
from evolora_core.report.plots import Look
from evolora_core.searches.adapters.arms.kinds import KINDS

LOOKS: dict[str, Look] = {name: kind.look for name, kind in KINDS.items() if kind.look}
# Colours of organelles by how they came about.
ORIGINS = {"founder": "#7F7F7F", "mutation": "#56B4E9", "merge": "#D55E00", "copy": "#009E73"}


def looks_of(conditions: Iterable[str]) -> dict[str, Look]:
    """Colour and marker of each condition; those that a suite defines itself get theirs in its order."""
    return plots.looks_of(conditions, LOOKS)


def legend_below(
    figure: Figure, conditions: Sequence[str], *, line: bool = False, marker: bool = False, more: Sequence[Artist] = ()
) -> None:
    """A legend of these conditions below the panels."""
    looks = looks_of(conditions)
    plots.legend_below(figure, {name: looks[name] for name in conditions}, line=line, marker=marker, more=more)


def draw_intervals(
    panel: Axes,
    points: pd.DataFrame,
    conditions: Sequence[str],
    rows: Sequence[str],
    by: str,
    columns: tuple[str, str, str],
) -> None:
    """Draw intervals in percent, on a row for each of `rows` from the top, the conditions one below the other in it.

    `points`: condition, the column `by` that names the row, and `columns` with value, lower and upper bound (shares).
    """
    looks = looks_of(conditions)
    offsets = np.linspace(-0.3, 0.3, len(conditions)) if len(conditions) > 1 else [0.0]
    for condition, offset in zip(conditions, offsets, strict=True):
        own = points[points["condition"] == condition]
        colour, marker = looks[condition]
        value, lo, hi = (100 * own[column].to_numpy() for column in columns)
        panel.errorbar(
            value, [rows.index(name) + offset for name in own[by]], xerr=np.maximum(0, [value - lo, hi - value]),
            fmt=marker, color=colour, markersize=5, elinewidth=1.2, capsize=0,
        )  # fmt: skip
    panel.set(yticks=range(len(rows)), ylim=(len(rows) - 0.5, -0.5))
    panel.set_yticklabels(rows)
    panel.grid(axis="y", visible=False)
