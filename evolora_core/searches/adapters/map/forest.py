"""The forest plots of the map: one row for each comparison, differences with intervals, verdicts in words and
colours.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from evolora_core.language.splits import title
from evolora_core.report.comparisons import p_over_seeds
from evolora_core.report.plots import STYLE
from evolora_core.report.tables import difference, p_value, rows_of, share
from evolora_core.searches.adapters.pack.looks import LOOKS
from evolora_core.statistics.inference import MIN_SEEDS, UNDECIDED, holm


@dataclass(frozen=True)
class Question:
    """What a map asks of every regime: an ecology against one kind of rival. `yes` and `no` are its verdicts."""

    rival: str  # the condition that rivals are like
    file: str
    title: str
    difference: str
    yes: str
    no: str
    better: str  # under the axis, where the ecology is ahead
    worse: str
    note: str


QUESTIONS = (
    Question(
        rival="sft",
        file="search",
        title="Where to search from rewards, and where to fine-tune",
        difference="ecology − fine-tuned, points",
        yes="search",
        no="fine-tune",
        better="search from rewards better",
        worse="fine-tuning better",
        note="Accuracy of the ecology, which searches from rewards, less that of the fine-tuned arm: mean over seeds, "
        "95 % interval. The fine-tuned arm learns from gold answers and asks no verifier while it learns. The "
        "budget, unless a row names another: the FLOPs that the arm whose compute is the suite's budget spent with the "
        "same seed on answers, updates, calibration, tests of merges, selection and routing; FLOPs: what the "
        "fine-tuned arm did spend, relative to the ecology. Search, fine-tune: Holm p < 0.05 "
        "within the suite and an interval clear of zero. Undecided does not mean equal.",
    ),
    Question(
        rival="single",
        file="population",
        title="Where a population pays, and where one adapter does",
        difference="population − one adapter, points",
        yes="population",
        no="one adapter",
        better="population better",
        worse="one adapter better",
        note="Accuracy of the ecology less that of one organelle that learns by the same rule from the same rewards: "
        "mean over seeds, 95 % interval. The budget, unless a row names another: the FLOPs that the arm whose compute "
        "is the suite's budget spent with the same seed; FLOPs: what the one organelle did spend, relative to the "
        "ecology. Verdicts: Holm p < 0.05 within the suite and an interval clear of zero. Undecided does not mean "
        "equal.",
    ),
)
WITHDRAWN = "withdrawn"
FEW = f" * Fewer than {MIN_SEEDS} seeds: the verdict is about these runs only."
BARE = (
    " † One of the two is the bare host in some or all seeds (the table says which): it changed nothing there. Hollow "
    "where the bare host is ahead, which is no merit."
)
WORDS, PLOT, NUMBERS = 2.75, 3.0, 3.3  # widths in inches: the regimes, the plot, the numbers beside it
ROW, HEADING, BELOW = 0.42, 0.34, 1.0  # heights in inches; below the plot are its axis and the note
# Where the columns of numbers begin, in inches from the plot's right edge.
AT = {"points": 0.1, "Holm p": 1.45, "seeds": 1.95, "FLOPs": 2.35, "verdict": 2.8}


def forest(places: pd.DataFrame, question: Question) -> Figure:
    """One row per place, grouped by suite, in the order given; the numbers stand beside the plot.

    `places`: suite, host, regime, split, routing, evolved, rival, seeds, diff, lo, hi (shares), p, p_holm, verdict,
    bare, evolved_flops, rival_flops (NaN: not of the same seeds). A verdict for an arm that was the bare host is drawn
    hollow.
    """
    with matplotlib.rc_context(fname=STYLE):
        names = {suite: suite.rpartition("-")[0] for suite in map(str, places["suite"])}
        suites = len(names)
        height = ROW * len(places) + HEADING * suites
        whole = WORDS + PLOT + NUMBERS, height + HEADING + BELOW
        figure = Figure(figsize=whole)
        figure.set_layout_engine("none")  # places are given in inches
        box = (WORDS / whole[0], BELOW / whole[1], PLOT / whole[0], height / whole[1])
        panel = figure.add_axes(box)
        panel.axvline(0, color="#444444", linewidth=0.8, linestyle="--")
        y = 0.0
        for suite, rows in places.groupby("suite", sort=False):
            y += HEADING
            called = names[str(suite)]
            if list(names.values()).count(called) > 1:
                called = str(suite)
            heading = f"{called}, host {rows['host'].iloc[0]}"
            _beside(panel, -WORDS, y - 0.1, heading, weight="bold", fontsize=9.5)
            for row in rows_of(rows):
                y += ROW
                _draw(panel, y - ROW / 2, row, question)
        panel.set_title(question.title, x=-WORDS / PLOT, pad=8)
        for name, at in AT.items():
            _beside(panel, PLOT + at, HEADING - 0.1, name, fontsize=8, color="#666666")
        panel.set_ylim(height, 0)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
        panel.grid(axis="y", visible=False)
        edge = max(abs(panel.get_xlim()[0]), abs(panel.get_xlim()[1]))
        panel.set_xlim(-edge, edge)  # zero in the middle: which side a row is on is its message
        panel.set_xlabel(f"← {question.worse}      points      {question.better} →", fontsize=9)
        note = f"{question.note} {many(places, 'rows here')}{footnotes(places)}"
        figure.text(
            0.005, 0.42 / whole[1], textwrap.fill(note, 165), va="top", fontsize=7.5, color="#444444", linespacing=1.3
        )
        return figure


def _draw(panel: Axes, middle: float, row: dict[Any, Any], question: Question) -> None:
    """One row: what it is about, the difference with its interval, and the numbers."""
    colour = draw_difference(panel, middle, row, question, markersize=7)
    about = textwrap.shorten(row["regime"], 46, placeholder=" …")
    _beside(panel, 0.12 - WORDS, middle, about, va="bottom", fontsize=9)
    where = f"{title(row['split'])}, {row['routing']} routing"
    _beside(panel, 0.12 - WORDS, middle + 0.03, where, va="top", fontsize=7, color="#666666")
    texts = (
        difference(row["diff"], row["lo"], row["hi"]),
        p_over_seeds(row["p_holm"], row["seeds"]),
        str(row["seeds"]),
        share(row["rival_flops"], row["evolved_flops"]),
        row["verdict"] + marks(row),
    )
    for (name, at), text in zip(AT.items(), texts, strict=True):
        bold: dict[str, Any] = {"color": colour, "weight": "bold"} if name == "verdict" else {}
        _beside(panel, PLOT + at, middle, text, va="center", fontsize=8, **bold)


def draw_difference(panel: Axes, y: float, row: dict[Any, Any], question: Question, *, markersize: float) -> str:
    """The difference of one row with its interval, at the height `y`. Returns the colour of its verdict."""
    grey = "#7f7f7f"
    looks = {question.yes: LOOKS["ecology"], question.no: LOOKS[question.rival], WITHDRAWN: (grey, "x")}
    colour, marker = looks.get(row["verdict"], (grey, "s"))
    diff, lo, hi = (100 * row[column] for column in ("diff", "lo", "hi"))
    hollow = row["verdict"] == UNDECIDED or _idle(row, question)
    panel.errorbar(
        [diff], [y], xerr=[[max(0, diff - lo)], [max(0, hi - diff)]], fmt=marker, color=colour, markersize=markersize,
        elinewidth=1.6, capsize=3, markerfacecolor="white" if hollow else colour,
    )  # fmt: skip
    return colour


def _beside(panel: Axes, inches: float, y: float, text: str, **look: Any) -> None:
    """A text that many inches from the plot's left edge, at the height `y` of its rows."""
    place = blended_transform_factory(panel.transAxes, panel.transData)
    panel.text(inches / PLOT, y, text, transform=place, parse_math=False, **look)


def marks(row: Mapping[Any, Any]) -> str:
    """What stands behind a verdict; `footnotes` says what it means."""
    few = row["seeds"] < MIN_SEEDS and row["verdict"] != UNDECIDED
    return ("*" if few else "") + ("†" if row["bare"] else "")


def footnotes(places: pd.DataFrame) -> str:
    """What the marks mean that stand behind verdicts of these rows."""
    found = "".join(marks(row) for row in places.to_dict("records"))
    return (FEW if "*" in found else "") + (BARE if "†" in found else "")


def many(places: pd.DataFrame, rows: str) -> str:
    """A sentence about what an adjustment over all these rows would leave of the verdicts, which are of one suite
    each.
    """
    adjusted = holm(places["p"].tolist())
    decided = ~places["verdict"].isin([UNDECIDED, WITHDRAWN])
    left = sum(p < 0.05 for p, verdict in zip(adjusted, decided, strict=True) if verdict)
    return (
        f"Holm p is adjusted within one suite. Adjusted over all {len(places)} {rows}, the smallest would be "
        f"{p_value(min(adjusted))}, and {left or 'no'} verdict{'s' if left > 1 else ''} would stand."
    )


def _idle(row: dict[Any, Any], question: Question) -> bool:
    """Whether the arm that a verdict names was the bare host on that split, in any seed."""
    ahead = {question.yes: row["evolved"], question.no: row["rival"]}.get(row["verdict"])
    return any(part.startswith(f"{ahead} in ") for part in str(row["bare"]).split(", "))
