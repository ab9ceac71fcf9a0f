"""The map as one plot that is read in a minute: one line for each regime that a suite names, the best for the ecology
on top.
"""

import textwrap
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evolora_core.language.splits import title
from evolora_core.report.plots import STYLE
from evolora_core.report.tables import difference
from evolora_core.searches.adapters.map.forest import QUESTIONS, Question, draw_difference, footnotes, many, marks
from evolora_core.statistics.inference import MIN_SEEDS

FILE = "overview"
TITLE = "The map in one plot"
ALT = "One line for each regime: who is ahead, the ecology or its rival, and by how many points"
LEFT, PLOT, RIGHT = 3.8, 2.9, 2.6  # widths in inches: what a line is about, the plot, the numbers
LINE, HEADING, AXIS, NOTE = 0.21, 0.45, 0.55, 0.75  # heights in inches


def overview(named: pd.DataFrame) -> Figure:
    """A panel for each question that the rows `named` answer, all on one axis.

    Columns as in `forest`, and `question`.
    """
    parts = [(q, rows) for q in QUESTIONS if len(rows := named[named["question"] == q.file])]
    heights = [HEADING + LINE * len(rows) + AXIS for _, rows in parts]
    width, height = LEFT + PLOT + RIGHT, sum(heights) + NOTE
    edge = 105 * named[["lo", "hi"]].abs().to_numpy().max() or 1
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(width, height))
        figure.set_layout_engine("none")  # places are given in inches
        top = height
        for (question, rows), own in zip(parts, heights, strict=True):
            box = (LEFT / width, (top - own + AXIS) / height, PLOT / width, LINE * len(rows) / height)
            _panel(figure.add_axes(box), question, rows.sort_values("diff", ascending=False, kind="stable"), edge)
            top -= own
        note = f"{_READING} {_spent(named)} {many(named, 'lines here')}{footnotes(named)}"
        at = (NOTE - 0.05) / height
        text = textwrap.fill(note, 150)
        figure.text(0.01, at, text, va="top", fontsize=7.5, color="#444444", linespacing=1.3, parse_math=False)
        return figure


_READING = (
    "Accuracy of the ecology less that of its rival, mean over seeds with a 95 % interval. The stated family decides "
    "which adapter answers, unless a line names another router. A hollow square is undecided, which does not mean "
    "equal."
)


def _spent(named: pd.DataFrame) -> str:
    shares = (named["rival_flops"] / named["evolved_flops"]).dropna()
    if shares.empty:
        return "No rival was run with the seeds of its ecology."
    return f"The rivals spent {shares.min():.2f} to {shares.max():.2f} times the ecology's FLOPs."


def _panel(panel: Axes, question: Question, rows: pd.DataFrame, edge: float) -> None:
    panel.axvline(0, color="#444444", linewidth=0.8, linestyle="--")
    beside: dict[str, Any] = {"transform": panel.get_yaxis_transform(), "va": "center", "fontsize": 8.5}
    twice = rows.duplicated(["regime", "split", "routing"], keep=False).tolist()
    for y, row in enumerate(rows.to_dict("records")):
        colour = draw_difference(panel, y, row, question, markersize=5.5)
        where = "" if row["split"] == "holdout_id" else f", {title(row['split'])}"
        where += "" if row["routing"] == "family" else f", router {row['routing']}"
        where += f" ({row['suite'].rpartition('-')[0]})" if twice[y] else ""
        where += f", {row['seeds']} seeds" if row["seeds"] < MIN_SEEDS else ""
        about = textwrap.shorten(row["regime"], max(20, 64 - len(where)), placeholder=" …") + where
        panel.text(-LEFT / PLOT + 0.03, y, about, parse_math=False, **beside)
        panel.text(1.03, y, difference(row["diff"], row["lo"], row["hi"]), **beside)
        panel.text(1.5, y, row["verdict"] + marks(row), color=colour, weight="bold", **beside)
    panel.set_xlim(-edge, edge)  # zero in the middle: which side a line is on is its message
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.grid(axis="y", visible=False)
    panel.set_title(question.title, x=-LEFT / PLOT + 0.03, pad=8)
    panel.set_xlabel(f"← {question.worse}    points    {question.better} →", fontsize=8.5)
