"""The plots of a pack of the merge search. Each function draws one figure from rows of the store.

Lines are means over seeds; bands reach from the lowest to the highest seed, where seeds have bases of their own beyond
what these differ by.
"""

from collections.abc import Iterable
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from evolora_core.report.plots import STYLE
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.pack.looks import BLACK, GREY, Line, Look, handle, looks_of

BAND = 0.13  # opacity
SETTLED = 0.15  # share of a search after which the axis of scores begins: the first candidates are far below
LEVELS: dict[str, Line] = {"best-parent": (0, (5, 2)), "uniform": (0, (1, 1.5)), "adam": (0, (5, 1.5, 1, 1.5))}


def test_by_arm(points: pd.DataFrame) -> Figure:
    """Accuracy on the test with 95 % intervals, an arm a row; base and best parent go through as lines.

    `points`: arm, kind, acc, lo, hi (shares), in order.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.0, 1.3 + 0.24 * len(points)))
        panel = figure.subplots()
        looks = looks_of(points)
        places = rows_of_arms(points)
        for row in points.to_dict("records"):
            point(panel, looks[row["arm"]], places[row["arm"]], row["acc"], row["lo"], row["hi"])
        acc = dict(zip(points["arm"], points["acc"], strict=True))
        lines: list[Artist] = []
        marks: tuple[tuple[str, Line], ...] = (("base", ":"), ("best-parent", "--"))
        for arm, style in marks:
            if arm in acc:
                panel.axvline(100 * acc[arm], color=GREY, linewidth=1.0, linestyle=style, zorder=1)
                lines.append(Line2D([], [], color=GREY, linewidth=1.0, linestyle=style, label=f"level of {arm}"))
        arm_rows(panel, places)
        panel.set(xlabel="exact match on the sealed test, % (means over seeds, 95 % intervals)")
        legend(figure, [*_kinds(), *lines])
        return figure


def domains(points: pd.DataFrame) -> Figure:
    """The same by domain, a panel each. The dashed line is the best single parent in the domain.

    `points`: arm, kind, domain, score, lo, hi (shares), in order.
    """
    with matplotlib.rc_context(fname=STYLE):
        names = list(dict.fromkeys(points["domain"]))
        marks: dict[str, tuple[Line, str]] = {
            "base": (":", "base"),
            "parent": ("--", "best single parent in the domain"),
        }
        places = rows_of_arms(points)
        columns = min(4, len(names))
        rows = -(-len(names) // columns)
        figure = Figure(figsize=(2.2 + 1.75 * columns, rows * (0.7 + 0.21 * len(places)) + 0.7))
        panels = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
        looks = looks_of(points)
        for panel, name in zip(panels, names, strict=False):
            own = points[points["domain"] == name]
            for row in own.to_dict("records"):
                point(panel, looks[row["arm"]], places[row["arm"]], row["score"], row["lo"], row["hi"])
            for kind, (style, _) in marks.items():
                level = own.loc[own["kind"] == kind, "score"].max()
                if pd.notna(level):
                    panel.axvline(100 * level, color=GREY, linewidth=1.0, linestyle=style, zorder=1)
            arm_rows(panel, places)
            panel.set(title=name, xlabel="exact match, %", xlim=_shares(points))
            panel.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
        for panel in panels[len(names) :]:
            panel.set_visible(False)
        levels = [
            Line2D([], [], color=GREY, linewidth=1.0, linestyle=style, label=label)
            for kind, (style, label) in marks.items()
            if (points["kind"] == kind).any()
        ]
        legend(figure, [*_kinds(), *levels], "sealed test, means over seeds, 95 % intervals")
        return figure


def progress(lines: pd.DataFrame) -> Figure:
    """The best search score so far, against measured candidates and against the FLOPs charged for them.

    `lines`: arm, kind, evaluations, seeds, running, flops, best, lo, hi; rows without evaluations are levels.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(8.4, 4.4))
        left, right = figure.subplots(1, 2, sharey=True)
        levels = lines[lines["evaluations"].isna()]
        runs = lines.drop(levels.index)
        looks = looks_of(runs)
        for panel, column in ((left, "evaluations"), (right, "flops")):
            for arm, own in runs.groupby("arm", sort=False):
                _band(panel, looks[str(arm)], own, column, "best", own["running"] == own["seeds"], steps=True)
            for row in levels.to_dict("records"):
                style = LEVELS.get(row["arm"], ":")
                panel.axhline(row["best"], color=BLACK, linewidth=1.0, linestyle=style, zorder=1)
        left.set(xlabel="measured candidates", ylabel="best search score, nats per gold token")
        right.set(xlabel="FLOPs charged for them")
        right.xaxis.set_major_formatter(EngFormatter())
        left.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        left.set_ylim(*_settled(runs, levels["best"]))
        seeds = int(runs["seeds"].max())
        more: list[Artist] = [
            Line2D([], [], color=BLACK, linewidth=1.0, linestyle=LEVELS.get(arm, ":"), label=f"level of {arm}")
            for arm in levels["arm"]
        ]
        more += _spread(seeds, "; thin: some ended" if (runs["running"] < runs["seeds"]).any() else "")
        legend(figure, [*(handle(arm, look, line=True) for arm, look in looks.items()), *more])
        return figure


def search_against_test(points: pd.DataFrame) -> Figure:
    """What the search items said of the chosen models, and how they did on the test: small marks are runs, large ones
    their means. A search that fits its items stands to the right of others that are as high. Open marks are rings in
    front of the filled ones, through which one sees what lies below.

    `points`: arm, kind, seed, search (nats), acc (share), in order.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.0, 5.6))
        panel = figure.subplots()
        looks = looks_of(points)
        parents = 0
        handles: list[Artist] = []
        seeds = points["seed"].nunique()
        for arm, own in points.groupby("arm", sort=False):
            look = looks[str(arm)]
            mark: dict[str, Any] = {"linestyle": "", "marker": look.marker, "color": look.colour}
            mark["markerfacecolor"] = look.colour if look.filled else "none"
            if seeds > 1:
                panel.plot(
                    own["search"], 100 * own["acc"], markersize=3, markeredgewidth=0.6, alpha=0.55, zorder=2, **mark
                )
            panel.plot(
                [own["search"].mean()], [100 * own["acc"].mean()], markersize=9, markeredgewidth=1.3,
                zorder=4 - look.filled, **mark,
            )  # fmt: skip
            parents += own["kind"].iloc[0] == "parent"
            if own["kind"].iloc[0] == "parent" and parents > 1:
                continue
            handles.append(handle("parents" if own["kind"].iloc[0] == "parent" else str(arm), look, line=False))
        means = " (large: means, small: runs)" if seeds > 1 else ""
        panel.set(
            xlabel="search score of the chosen model, nats per gold token", ylabel=f"exact match on the test, %{means}"
        )
        legend(figure, handles)
        return figure


def diversity(lines: pd.DataFrame) -> Figure:
    """How differently the candidates of a generation answer.

    `lines`: arm, kind, evaluations, diversity, lo, hi (shares), seeds.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.0, 4.0))
        panel = figure.subplots()
        looks = looks_of(lines)
        shown = lines.assign(**{name: 100 * lines[name] for name in ("diversity", "lo", "hi")})
        for arm, own in shown.groupby("arm", sort=False):
            _band(panel, looks[str(arm)], own, "evaluations", "diversity", pd.Series(True, index=own.index))
        panel.set(xlabel="measured candidates", ylabel="items on which two candidates\nof a generation differ, %")
        panel.set_ylim(bottom=0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles: list[Artist] = [handle(arm, look, line=True) for arm, look in looks.items()]
        legend(figure, [*handles, *_spread(int(lines["seeds"].max()))])
        return figure


def point(panel: Axes, look: Look, y: float, mean: float, low: float, high: float) -> None:
    """A share with its interval, in percent."""
    mean, low, high = 100 * mean, 100 * low, 100 * high
    panel.errorbar(
        [mean], [y], xerr=np.maximum(0, [[mean - low], [high - mean]]), fmt=look.marker, color=look.colour,
        markerfacecolor=look.face, markersize=6, elinewidth=1.3, capsize=2.5, zorder=3,
    )  # fmt: skip


def rows_of_arms(points: pd.DataFrame) -> dict[str, float]:
    """Where each arm stands, from top to bottom, with a gap between parents, controls and strategies."""
    places: dict[str, float] = {}
    y, before = -1.0, ""
    for arm, kind in points[["arm", "kind"]].drop_duplicates().itertuples(index=False):
        group = "strategy" if kind in STRATEGIES else "given" if kind in ("base", "parent") else "control"
        y += 1.0 if group == before or not before else 1.6
        places[arm], before = y, group
    return places


def arm_rows(panel: Axes, places: dict[str, float]) -> None:
    """The names of the arms, from top to bottom."""
    panel.set_yticks(list(places.values()), list(places), fontsize=8.5)
    panel.set_ylim(max(places.values()) + 0.7, -0.7)
    panel.grid(axis="y", visible=False)


def legend(figure: Figure, handles: Iterable[Artist], title: str | None = None) -> None:
    """A legend below the panels."""
    shown = list(handles)
    ncols = min(len(shown), 4)
    figure.legend(handles=shown, loc="outside lower center", ncols=ncols, title=title, title_fontsize=10)


def _kinds() -> list[Artist]:
    """What filled and open marks mean."""
    return [
        Line2D([], [], color=BLACK, marker="o", markerfacecolor=BLACK, linestyle="", label="filled: strategy"),
        Line2D([], [], color=BLACK, marker="o", markerfacecolor="white", linestyle="", label="open: control"),
    ]


def _band(
    panel: Axes, look: Look, own: pd.DataFrame, x: str, y: str, whole: "pd.Series[bool]", *, steps: bool = False
) -> None:
    """Mean and range over seeds; a thin line where some runs have ended. `steps`: a value holds until the next."""
    panel.fill_between(
        own[x], own["lo"], own["hi"], color=look.colour, alpha=BAND, linewidth=0, step="post" if steps else None
    )
    ended = own[y].where(~whole | ~whole.shift(-1, fill_value=True))
    line: dict[str, Any] = {
        "color": look.colour,
        "linestyle": look.line,
        "drawstyle": "steps-post" if steps else "default",
    }
    panel.plot(own[x], ended, linewidth=0.8, **line)
    panel.plot(own[x], own[y].where(whole), **line)


def _shares(points: pd.DataFrame) -> tuple[float, float]:
    """Limits, in percent, that leave some room beside all marks and intervals."""
    shown = 100 * points[["score", "lo", "hi"]].to_numpy(float)
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    room = 0.06 * max(high - low, 10)
    return low - room, high + room


def _settled(runs: pd.DataFrame, levels: "pd.Series[float]") -> tuple[float, float]:
    """Limits of scores that leave out how bad the first candidates are."""
    late = runs[runs["evaluations"] >= SETTLED * runs.groupby("arm")["evaluations"].transform("max")]
    shown = pd.concat([late["best"], levels])
    low, high = shown.min(), max(shown.max(), late["hi"].max())
    room = 0.05 * max(high - low, 1e-3)
    return low - room, high + room


def _spread(seeds: int, more: str = "") -> list[Artist]:
    """What a band is; nothing for one seed, which has none."""
    label = f"range of {seeds} seeds{more}"
    return [Patch(color="#bbbbbb", alpha=0.5, linewidth=0, label=label)] if seeds > 1 else []
