"""Plots of trade-offs: accuracy against FLOPs, gain against retention."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from evolora_core.report.plots import STYLE
from evolora_core.searches.adapters.pack.looks import LOOKS, legend_below, looks_of

FROZEN = "frozen"


def curve(points: pd.DataFrame) -> Figure:
    """Accuracy over the FLOPs spent, one line per curve, with 95 % intervals; the frozen host is a level.

    `points`: curve (called like one of its conditions), condition, total_flops, id_acc, id_lo, id_hi, retention_acc, …
    (shares), by rising budget.
    """
    with matplotlib.rc_context(fname=STYLE):
        shown = ["id"] + (["retention"] if points["retention_acc"].notna().any() else [])
        titles = {"id": "In distribution, headline routing", "retention": "Retention, routing single"}
        figure = Figure(figsize=(1.0 + 3.6 * len(shown), 4.2))
        panels = np.atleast_1d(figure.subplots(1, len(shown), sharex=True))
        looks = looks_of([*points["curve"], *points["condition"]])
        trained = points[points["condition"] != FROZEN]
        for panel, what in zip(panels, shown, strict=True):
            for name, mine in trained.groupby("curve", sort=False):
                colour, marker = looks[str(name)]
                acc, lo, hi = (100 * mine[f"{what}_{column}"].to_numpy() for column in ("acc", "lo", "hi"))
                panel.errorbar(
                    mine["total_flops"], acc, yerr=np.maximum(0, [acc - lo, hi - acc]), fmt=f"-{marker}", color=colour,
                    elinewidth=1.2, capsize=2.5,
                )  # fmt: skip
            for _, host in points[points["condition"] == FROZEN].iterrows():
                grey = LOOKS[FROZEN][0]
                panel.axhline(100 * host[f"{what}_acc"], color=grey)
                panel.axhspan(100 * host[f"{what}_lo"], 100 * host[f"{what}_hi"], color=grey, alpha=0.15, linewidth=0)
            panel.set_title(titles[what])
            _flops_axis(panel, trained["total_flops"])
        panels[0].set_ylabel("accuracy, % (95 % intervals)")
        level = Line2D([], [], color=LOOKS[FROZEN][0], label=FROZEN)
        legend_below(figure, list(dict.fromkeys(trained["curve"])), line=True, marker=True, more=[level])
        return figure


def frontier(points: pd.DataFrame) -> Figure:
    """Gain in distribution against the change in retention, over the frozen host: a small point for each run and
    strength, the means over seeds joined over the strengths, and the Pareto front of these means and the host. Marks
    grow with the strength; it is written beside those of the arm that goes furthest. Conditions of one learning curve
    look alike, and their budget stands beside them.

    `points`: condition, curve (called like one of its conditions), budget, seed, strength, gain, change (shares), by
    rising strength.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.0, 5.0))
        panel = figure.subplots()
        looks = looks_of(points["curve"])
        curve_of, budgets = (points.groupby("condition")[name].first() for name in ("curve", "budget"))
        several = set(curve_of[curve_of.duplicated()])  # curves of more than one budget
        means = 100 * points.groupby(["condition", "strength"], sort=False)[["gain", "change"]].mean()
        strongest = points["strength"].max()
        furthest = str(means.index[int(np.hypot(*means.to_numpy().T).argmax())][0])
        for condition, runs in points.groupby("condition", sort=False):
            colour, marker = looks[curve_of[condition]]
            panel.scatter(
                100 * runs["gain"], 100 * runs["change"], c=colour, marker=marker, s=12, alpha=0.3, linewidths=0
            )
            line = means.loc[str(condition)]
            panel.plot([0, *line["gain"]], [0, *line["change"]], color=colour, linewidth=0.9, linestyle=":")
            panel.plot(line["gain"], line["change"], color=colour)
            sizes = 30 + 50 * line.index.to_numpy() / strongest
            panel.scatter(
                line["gain"], line["change"], c=colour, marker=marker, s=sizes, edgecolors="white", linewidths=0.6,
                zorder=3,
            )  # fmt: skip
            if curve_of[condition] in several:
                panel.annotate(
                    f"{budgets[condition]:g}", tuple(line.loc[1.0, ["gain", "change"]]), xytext=(0, -14),
                    textcoords="offset points", fontsize=7.5, color=colour, ha="center", zorder=5,
                )  # fmt: skip
        for strength, gain, change in means.loc[furthest].itertuples():
            panel.annotate(
                f"×{strength:g}", (gain, change), xytext=(7, 4), textcoords="offset points", fontsize=8.5,
                color=looks[curve_of[furthest]][0], zorder=5,
            )  # fmt: skip
        front = pareto_front(np.vstack([[0.0, 0.0], means.to_numpy()]))
        panel.step(*front.T, where="pre", color="#444444", linewidth=0.9, linestyle="--", zorder=1)
        panel.axhline(0, color="#bbbbbb", linewidth=0.8, zorder=0)
        panel.axvline(0, color="#bbbbbb", linewidth=0.8, zorder=0)
        grey, square = LOOKS[FROZEN]
        panel.plot([0], [0], marker=square, color=grey, markersize=8, markeredgecolor="white", zorder=4)
        panel.annotate(
            "frozen: doing nothing", (0, 0), xytext=(3, 9), textcoords="offset points", fontsize=8.5, color="#444444"
        )
        panel.margins(0.08)
        panel.set(xlabel="gain in distribution, points", ylabel="change in retention, points")
        more = [
            Line2D([], [], color="#444444", linewidth=0.9, linestyle="--", label="Pareto front of the means"),
            Line2D([], [], color="#777777", marker="o", markersize=3, linestyle="", alpha=0.5, label="one run"),
            Line2D([], [], color="#777777", marker="o", markersize=7, linestyle="", label="larger: ΔW scaled up"),
        ]
        if several:
            more.append(Line2D([], [], color="#777777", marker="$2$", linestyle="", label="budget, the ecology's = 1"))
        legend_below(figure, list(dict.fromkeys(points["curve"])), line=True, marker=True, more=more)
        return figure


def pareto_front(points: np.ndarray) -> np.ndarray:
    """The points `[n, 2]` that no other one beats in one coordinate and equals or beats in the other, by rising first
    coordinate; equal ones once. More is better.
    """
    points = np.unique(points, axis=0)
    at_least = (points[None] >= points[:, None]).all(axis=2)  # [i, j]: j is nowhere worse than i
    result: np.ndarray = points[at_least.sum(axis=1) == 1]  # each is nowhere worse than itself
    return result


def _flops_axis(panel: Axes, flops: pd.Series) -> None:
    """A logarithmic axis with ticks at 1, 2 and 5 of the power of a thousand that suits the FLOPs."""
    power = 3 * int(np.log10(float(flops.min()) * float(flops.max())) / 2 // 3)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 10.0**power:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel(rf"FLOPs spent, $\times 10^{{{power}}}$")
