"""The plots of an attention suite's pack. Marks are means; bars reach from the lowest to the highest run."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evolora_core.report.plots import STYLE
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN

GREY, BLACK, RED = "#9a9a9a", "#222222", "#D55E00"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")  # of searches and programs of one's own
MARKS = ("o", "s", "^", "D", "v", "P")


def scaling(points: pd.DataFrame) -> Figure:
    """Loss on unseen texts against parameters, a line an arm, named at its end. `points`: arm, size, parameters, loss,
    lowest, highest.
    """
    return _lines(points, "loss", "loss of a held-out token, nats", zero=False)


def gain(points: pd.DataFrame) -> Figure:
    """The same as a gain over the baseline. `points`: arm, size, parameters, gain, lowest, highest."""
    return _lines(points, "gain", f"gain over {BASELINE}, nats (higher is better)", zero=True)


def progress(points: pd.DataFrame) -> Figure:
    """Left: the best score so far against the FLOPs of the search. Right: every program's score. `points`: arm, seed,
    programs, flops, score, best.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.2, 3.0))
        left, right = figure.subplots(1, 2)
        for place, (arm, own) in enumerate(points.groupby("arm")):
            colour = COLOURS[place % len(COLOURS)]
            for _, run in own.groupby("seed"):
                left.step(run["flops"] / 1e12, run["best"], where="post", color=colour, linewidth=1.0)
            left.plot([], [], color=colour, label=str(arm))
            right.plot(own["programs"], own["score"], MARKS[place % len(MARKS)], color=colour, markersize=3, alpha=0.7)
        for panel in (left, right):
            panel.axhline(0, color=GREY, linewidth=0.8)
        left.set(xlabel="FLOPs of the search, 10¹²", ylabel="predicted gain of the best, nats", title="Best so far")
        right.set(xlabel="program", ylabel="predicted gain, nats", title="Every program with a score")
        left.legend(loc="lower right")
        return figure


def _lines(points: pd.DataFrame, value: str, label: str, *, zero: bool) -> Figure:
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.2, 4.6))
        panel = figure.subplots()
        ends: list[tuple[float, str, str]] = []
        searched = 0
        for arm, own in points.groupby("arm"):
            look = _look(str(arm), searched)
            searched += str(arm) not in KNOWN
            low, high = own[value] - own["lowest"], own["highest"] - own[value]
            panel.errorbar(own["parameters"], own[value], yerr=[low.clip(lower=0), high.clip(lower=0)], **look)
            ends.append((float(own[value].iloc[-1]), str(arm), look["color"]))
        if zero:
            panel.axhline(0, color=BLACK, linewidth=0.8)
        panel.set(xscale="log", xlabel=f"parameters of {BASELINE} without the embedding", ylabel=label)
        sizes = points.groupby("size")["parameters"].min().sort_values()
        panel.set_xticks(sizes.to_list(), [f"{size}\n{count:,.0f}" for size, count in sizes.items()])
        panel.minorticks_off()
        _name(panel, ends, float(sizes.iloc[-1]))
        return figure


def _look(arm: str, searched: int) -> dict[str, Any]:
    """Searches have colours, known mechanisms are grey, the baseline is black, and what must lose is red."""
    if arm == BASELINE:
        return {"color": BLACK, "marker": "o", "markersize": 4, "linewidth": 1.6, "zorder": 3}
    if arm in KNOWN:
        colour = RED if KNOWN[arm].negative else GREY
        return {"color": colour, "marker": ".", "markersize": 4, "linewidth": 0.9, "zorder": 2}
    place = searched % len(COLOURS)
    return {"color": COLOURS[place], "marker": MARKS[place], "markersize": 5, "linewidth": 1.6, "zorder": 4}


def _name(panel: Axes, ends: list[tuple[float, str, str]], at: float) -> None:
    """Name each line at its right end; names that would overlap are moved apart."""
    low, high = panel.get_ylim()
    gap = 0.042 * (high - low)
    order = sorted(ends)
    wanted = np.array([end for end, _, _ in order])
    for _ in range(200):  # push neighbours apart until none overlap
        overlap = np.maximum(gap - np.diff(wanted), 0)
        if overlap.max(initial=0) < 1e-9 * gap:
            break
        wanted[1:] += overlap / 2
        wanted[:-1] -= overlap / 2
    for place, (end, arm, colour) in zip(wanted, order, strict=True):
        panel.annotate(
            arm,
            (at, end),
            xytext=(1.02, (place - low) / (high - low)),
            textcoords="axes fraction",
            color=colour,
            fontsize=7,
            va="center",
        )
