"""The plots of an attention suite's pack. Marks are means; bars are 95 % intervals, of several seeds."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy import stats

from evolora_core.report.plots import STYLE
from evolora_core.searches.attention.known.registry import BASELINE
from evolora_core.searches.attention.pack.looks import BLACK, GREY, Look, limits, looks_of, name_ends
from evolora_core.statistics.inference import ALPHA

TOP = 2.0  # scores that are worse than nothing by this many times the best one are drawn at the edge


def scaling(points: pd.DataFrame) -> Figure:
    """Loss on unseen texts against parameters, a line an arm. `points`: arm, size, parameters, loss, lo, hi."""
    return _lines(points, "loss", "loss of a held-out token, nats", zero=False)


def gain(points: pd.DataFrame) -> Figure:
    """The same as a gain over the baseline. `points`: arm, size, parameters, gain, lo, hi."""
    return _lines(points, "gain", f"gain over {BASELINE}, nats (higher is better)", zero=True)


def prediction(points: pd.DataFrame) -> Figure:
    """Each arm's gain at the largest size, measured beside predicted. `points`: arm, size, gain, lo, hi, predicted,
    predicted_lo, predicted_hi.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.2, 1.3 + 0.27 * len(points)))
        panel = figure.subplots()
        looks = looks_of(points["arm"])
        shown = pd.concat([points[["arm", "gain"]], points[["arm", "predicted"]].set_axis(["arm", "gain"], axis=1)])
        low, high = limits(shown.dropna(), "gain", zero=True)
        panel.set_xlim(low, high)
        filled: dict[str, Any] = {"fmt": "o", "ms": 5, "elinewidth": 1.4, "capsize": 2.5}
        empty: dict[str, Any] = {"fmt": "D", "ms": 4.5, "elinewidth": 0.9, "markerfacecolor": "white", "alpha": 0.75}
        for place, row in enumerate(points.to_dict("records")):
            colour, both = looks[row["arm"]].colour, [row["gain"], row["predicted"]]
            if np.nanmin(both) < low or np.nanmax(both) > high:
                _beyond(panel, place, row["gain"], row["predicted"], colour)
                continue
            for name, lo, hi, at, style in (
                ("gain", row["lo"], row["hi"], place - 0.13, filled),
                ("predicted", row["predicted_lo"], row["predicted_hi"], place + 0.17, empty),
            ):
                if np.isnan(row[name]):
                    continue
                panel.errorbar(row[name], at, xerr=_reach(row[name], lo, hi), color=colour, zorder=3, **style)
                for cut, mark, edge in ((lo < low, "<", low), (hi > high, ">", high)):
                    if cut:
                        panel.plot([edge], [at], mark, color=colour, ms=4, clip_on=False, zorder=4)
        panel.axvline(0, color=BLACK, linewidth=0.8)
        panel.set_yticks(range(len(points)), points["arm"].to_list(), fontsize=8)
        for label, arm in zip(panel.get_yticklabels(), points["arm"], strict=True):
            label.set_color(looks[arm].colour)
        panel.set_ylim(len(points) - 0.4, -0.6)
        panel.grid(axis="y", visible=False)
        size = points["size"].iloc[0]
        panel.set_xlabel(f"gain over {BASELINE} at size {size}, nats (an arrow: the interval goes on)")
        point: dict[str, Any] = {"color": BLACK, "linestyle": ""}
        hollow: dict[str, Any] = {"marker": "D", "markersize": 4.5, "markerfacecolor": "white"}
        handles = [
            Line2D([], [], marker="o", markersize=5, label="measured", **point),
            Line2D([], [], label="predicted before", **point | hollow),
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=2)
        return figure


def progress(points: pd.DataFrame) -> Figure:
    """Above: the best score so far against the FLOPs and the processor time of the search, of each run seed (thin) and
    their mean with its 95 % interval. Below: every program's score. `points`: arm, seed, programs, flops, seconds,
    score, best; a program without a score has none.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.2, 5.4))
        grid = figure.add_gridspec(2, 2)
        left = figure.add_subplot(grid[0, 0])
        right, below = figure.add_subplot(grid[0, 1], sharey=left), figure.add_subplot(grid[1, :])
        looks = looks_of(points["arm"])
        power = 3 * int(np.log10(max(points["flops"].max(), 1)) // 3)
        points = points.assign(flops=points["flops"] / 10**power, minutes=points["seconds"] / 60)
        worst = -TOP * max(points["score"].max(), 0.01)
        for arm, own in points.groupby("arm"):
            for panel, cost in ((left, "flops"), (right, "minutes")):
                _best_so_far(panel, own, cost, worst, looks[str(arm)].colour)
            _every_program(below, own, worst, looks[str(arm)])
        for panel in (left, right, below):
            panel.axhline(0, color=GREY, linewidth=1.0)
            panel.set_xlim(0, None)
        seeds = points["seed"].nunique()
        left.set_title(f"Best so far: {seeds} seeds, mean, 95 %" if seeds > 1 else "Best so far")
        left.set(xlabel=f"FLOPs of the search, 10{str(power).translate(_RAISED)}", ylabel=_AHEAD)
        right.set(xlabel="processor minutes of the search")
        right.tick_params(labelleft=False)
        below.set(xlabel="program, in the order of the search", ylabel=_AHEAD, title="Every program")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles = [
            Line2D([], [], color=look.colour, marker=look.marker, markersize=4, label=arm)
            for arm, look in looks.items()
        ]
        mark: dict[str, Any] = {"color": BLACK, "linestyle": "", "markersize": 4}
        if points["score"].isna().any():
            handles.append(Line2D([], [], marker="x", label="no score: refused or guarded", **mark))
        if (points["score"] < worst).any():
            handles.append(Line2D([], [], marker="v", markerfacecolor="white", label="lower than shown", **mark))
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
        return figure


_AHEAD = "score, nats ahead of mha"


def _best_so_far(panel: Axes, own: pd.DataFrame, cost: str, worst: float, colour: str) -> None:
    """Each run of an arm, and their mean with its interval where all runs have one."""
    runs = [run for _, run in own.groupby("seed")]
    line: dict[str, Any] = {"where": "post", "color": colour}
    for run in runs if len(runs) > 1 else []:
        panel.step(run[cost], run["best"].clip(lower=worst), linewidth=0.6, alpha=0.25, **line)
    first, last = max(run[cost].iloc[0] for run in runs), min(run[cost].iloc[-1] for run in runs)
    places = np.unique(np.concatenate([run[cost].to_numpy() for run in runs]))
    places = places[(places >= first) & (places <= last)]
    each = [run["best"].to_numpy()[np.searchsorted(run[cost], places, side="right") - 1] for run in runs]
    mean = np.mean(each, axis=0)
    panel.step(places, mean.clip(min=worst), linewidth=1.6, **line)
    if len(runs) > 1:
        half = stats.t.ppf(1 - ALPHA / 2, len(runs) - 1) * np.std(each, axis=0, ddof=1) / np.sqrt(len(runs))
        low, high = (mean - half).clip(min=worst), mean + half
        panel.fill_between(places, low, high, step="post", color=colour, alpha=0.12, linewidth=0)


def _every_program(panel: Axes, own: pd.DataFrame, worst: float, look: Look) -> None:
    """The score of each program of an arm; those that have none lie at the bottom."""
    scored = own[own["score"].notna()]
    inside = scored["score"] >= worst
    style: dict[str, Any] = {"color": look.colour, "markersize": 4, "alpha": 0.7, "linestyle": ""}
    panel.plot(scored["programs"][inside], scored["score"][inside], marker=look.marker, **style)
    outside = scored["programs"][~inside]
    panel.plot(outside, [worst] * len(outside), marker="v", markerfacecolor="white", **style)
    failed = own["programs"][own["score"].isna()]
    panel.plot(failed, [0.02] * len(failed), marker="x", transform=panel.get_xaxis_transform(), **style)


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _lines(points: pd.DataFrame, value: str, label: str, *, zero: bool) -> Figure:
    with matplotlib.rc_context(fname=STYLE):
        names = points["arm"].nunique()
        figure = Figure(figsize=(7.2, max(4.0, 0.26 * names)))
        panel = figure.subplots()
        looks = looks_of(points["arm"])
        ends: list[tuple[float, float, str, str]] = []
        for arm, own in points.groupby("arm"):
            look = looks[str(arm)]
            panel.errorbar(
                own["parameters"], own[value], yerr=_reach(own[value], own["lo"], own["hi"]), color=look.colour,
                marker=look.marker, markersize=look.size, linewidth=look.width, elinewidth=0.8, zorder=look.zorder,
            )  # fmt: skip
            last = own.iloc[-1]
            ends.append(
                (float(last["parameters"]), float(last[value]), _named(str(arm), last[value], zero), look.colour)
            )
        if zero:
            panel.axhline(0, color=BLACK, linewidth=1.0)
            ends.append((float(points["parameters"].max()), 0.0, BASELINE, BLACK))
        panel.set_ylim(*limits(points, value, zero=zero))
        plain = points[points["arm"] == BASELINE] if not zero else points
        sizes = plain.groupby("size")["parameters"].min().sort_values()
        panel.set(xscale="log", xlabel=f"parameters without the embedding (marked: those of {BASELINE})", ylabel=label)
        panel.set_xlim(points["parameters"].min() / 1.12, points["parameters"].max() * 1.12)
        panel.set_xticks(sizes.to_list(), [f"{size}\n{_count(count)}" for size, count in sizes.items()])
        panel.minorticks_off()
        name_ends(panel, ends)
        return figure


def _named(arm: str, value: float, signed: bool) -> str:
    return f"{arm} " + (f"{value:+.2f}".replace("-", "−") if signed else f"{value:.2f}")


def _count(number: float) -> str:
    """`6.6 k`: parameters for an axis."""
    return f"{number / 1000:.3g} k"


def _reach(
    value: "float | pd.Series[float]", lo: "float | pd.Series[float]", hi: "float | pd.Series[float]"
) -> np.ndarray:
    """How far an interval reaches below and above a value `[2, points]`; 0 where there is none."""
    found: np.ndarray = np.nan_to_num(np.array([np.atleast_1d(value - lo), np.atleast_1d(hi - value)], dtype=float))
    return found.clip(min=0)


def _beyond(panel: Axes, place: float, gain: float, predicted: float, colour: str) -> None:
    """Say in a row of the panel what is not drawn there, as some of it lies beyond the edge."""
    said = f"measured {gain:+.2f}" + ("" if np.isnan(predicted) else f", predicted {predicted:+.2f}")
    said, (low, high) = said.replace("-", "−"), panel.get_xlim()
    look: dict[str, Any] = {"color": colour, "fontsize": 7.5, "va": "center"}
    if np.nanmin([gain, predicted]) < low:
        panel.text(low, place, f" ← {said}", ha="left", **look)
    else:
        panel.text(high, place, f"{said} → ", ha="right", **look)
