"""The plots of the landscape: what replayed runs have left of the gain, and what a search score says of the test."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from evolora_core.report.plots import STYLE
from evolora_core.report.stored import StoredSuite
from evolora_core.searches.merging.pack.landscape import OPTIMA, RUNS, mark_rows, regret_rows
from evolora_core.searches.merging.pack.looks import BLACK, GREY, Look, handle, looks_of
from evolora_core.searches.merging.pack.plots import legend
from evolora_core.searches.merging.stages.regret import LEFT

FLOOR = 0.1  # of a tenth of the gain: what lies below is drawn there
BAND = 0.1  # opacity
FEW = 3  # models below which a correlation says nothing
FAINTEST = 0.2  # models at which the colour of the density begins, so that one model is seen
# Marker, colour and size.
MARKS = {"parents": ("s", "#D55E00", 6), OPTIMA[0]: ("*", "#009E73", 10), OPTIMA[1]: ("D", "#CC79A7", 9)}

# Every evaluation at first, then every fifth: the store has all.
_CURVES = """
    SELECT seed, strategy, evaluations, CASE WHEN isfinite(regret) THEN regret END AS regret,
        CASE WHEN isfinite(regret_lo) THEN regret_lo END AS lo, CASE WHEN isfinite(regret_hi) THEN regret_hi END AS hi,
        within, within_lo, within_hi
    FROM regret JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite AND (evaluations <= 100 OR evaluations % 5 = 0) ORDER BY evaluations
"""
_MODELS = """
    SELECT seed, NULL::VARCHAR AS what, round(search_score, 4) AS search, round(test_score, 4) AS test
    FROM landscape JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite AND search_score IS NOT NULL AND test_score IS NOT NULL ORDER BY seed, model
"""


def regret_curves(stored: StoredSuite) -> pd.DataFrame:
    """Regret (nats: mean, lo, hi, which are the 10th and 90th percentile) and share of the runs within a tenth of the
    gain, by seed, strategy and evaluations; beside them a tenth of the gain (nats), and where the hypothesis is read.
    """
    declared = regret_rows(stored)
    own = declared.assign(tenth=LEFT * declared["gain"])[["seed", "strategy", "tenth", "read_at"]]
    return own.merge(stored.frame(_CURVES), on=["seed", "strategy"], how="inner", sort=False)


def regret(curves: pd.DataFrame) -> Figure:
    """Left: mean regret against evaluations, with the 10th to 90th percentile of the runs. Right: share of the runs
    that have at most a tenth of the gain left, with its 95 % interval. A row of panels for each seed.
    """
    with matplotlib.rc_context(fname=STYLE):
        seeds = sorted(set(curves["seed"]))
        figure = Figure(figsize=(8.4, 0.9 + 3.4 * len(seeds)))
        panels = figure.subplots(len(seeds), 2, squeeze=False)
        looks = looks_of(pd.DataFrame({"arm": curves["strategy"], "kind": curves["strategy"]}))
        for (left, right), seed in zip(panels, seeds, strict=True):
            own = curves[curves["seed"] == seed]
            tenth, read_at = float(own["tenth"].iloc[0]), float(own["read_at"].iloc[0])
            bottom = FLOOR * tenth if tenth > 0 else 1e-4
            for arm, look in looks.items():
                run = own[own["strategy"] == arm]
                _line(left, look, run, "regret", "lo", "hi", 1.0, bottom)
                _line(right, look, run, "within", "within_lo", "within_hi", 100.0, 0.0)
            left.set_yscale("log")
            left.set_ylim(bottom, max(10 * tenth, own.loc[own["evaluations"] >= 8, "regret"].max(), 2 * bottom))
            left.axhline(tenth, color=BLACK, linewidth=1.0, linestyle="--", zorder=1)
            right.axhline(100 * RUNS, color=BLACK, linewidth=1.0, linestyle="--", zorder=1)
            for panel in (left, right):
                panel.axvline(read_at, color=GREY, linewidth=1.0, linestyle=":", zorder=1)
                panel.set_xlim(0, own["evaluations"].max())
                panel.set_xlabel("evaluations (distinct models)")
            left.set_ylabel("regret, nats per gold token")
            right.set(ylabel="runs with at most a tenth of the gain left, %", ylim=(-2, 102))
            if len(seeds) > 1:
                left.set_title(f"seed {seed}")
        lines: list[Artist] = [
            Line2D([], [], color=BLACK, linewidth=1.0, linestyle="--", label="a tenth of the gain; 80 % of runs"),
            Line2D([], [], color=GREY, linewidth=1.0, linestyle=":", label="read here"),
            Patch(color="#bbbbbb", alpha=0.5, linewidth=0, label="10th to 90th percentile; 95 % interval"),
        ]
        legend(figure, [*(handle(arm, look, line=True) for arm, look in looks.items()), *lines])
        return figure


def _line(panel: Axes, look: Look, run: pd.DataFrame, y: str, low: str, high: str, times: float, bottom: float) -> None:
    """A curve and its band, neither of them below the bottom."""
    x, (mean, lo, hi) = run["evaluations"], (times * run[name].clip(lower=bottom) for name in (y, low, high))
    panel.fill_between(x, lo, hi, step="post", color=look.colour, alpha=BAND, linewidth=0)
    panel.plot(x, mean, drawstyle="steps-post", color=look.colour, linestyle=look.line)


def landscape_points(stored: StoredSuite) -> pd.DataFrame:
    """Search and test score (nats, four decimals) of every model that has both, then those of the marks, which have a
    name in `what`.
    """
    marks = mark_rows(stored).rename(columns={"search_score": "search", "test_score": "test"})
    marks = marks[["seed", "what", "search", "test"]].dropna().round({"search": 4, "test": 4})
    models = stored.frame(_MODELS)
    return models if models.empty else pd.concat([models, marks.astype({"what": object})], ignore_index=True)


def landscape(points: pd.DataFrame) -> Figure:
    """Search score against test score. Left: density of all models. Right: those that are as good as the worst parent
    on the search items, or better. A row of panels for each seed.
    """
    with matplotlib.rc_context(fname=STYLE):
        seeds = sorted(set(points["seed"]))
        figure = Figure(figsize=(8.4, 0.9 + 3.9 * len(seeds)))
        panels = figure.subplots(len(seeds), 2, squeeze=False)
        for (left, right), seed in zip(panels, seeds, strict=True):
            own = points[points["seed"] == seed]
            models, marks = own[own["what"].isna()], own[own["what"].notna()]
            parents = marks[~marks["what"].isin(OPTIMA)]
            good = models[models["search"] >= parents["search"].min()]
            left.hexbin(
                models["search"], models["test"], gridsize=40, mincnt=1, cmap="Blues", linewidths=0.1,
                norm=LogNorm(vmin=FAINTEST),
            )  # fmt: skip
            right.plot(
                good["search"], good["test"], linestyle="", marker="o", markersize=2.5, color="#0072B2", alpha=0.5,
                markeredgewidth=0,
            )  # fmt: skip
            _marks(left, marks)
            _marks(right, marks[marks["search"] >= parents["search"].min()])
            right.xaxis.set_major_locator(MaxNLocator(5))
            name = f"seed {seed}: " if len(seeds) > 1 else ""
            left.set_title(f"{name}all {len(models):,} models\n{correlation(models)}", fontsize=10)
            right.set_title(f"the {len(good):,} not behind the worst parent\n{correlation(good)}", fontsize=10)
        handles: list[Artist] = [Line2D([], [], label=what, **_mark(what)) for what in MARKS]
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, label="equal scores"))
        handles.append(Patch(color="#6baed6", linewidth=0, label="models (darker: more, logarithmic)"))
        legend(figure, handles)
        return figure


def _marks(panel: Axes, marks: pd.DataFrame) -> None:
    """Parents and optima over the models, and the line of equal scores."""
    for what, search, test in marks[["what", "search", "test"]].itertuples(index=False):
        panel.plot([search], [test], zorder=4, **_mark(what))
    limits = panel.get_xlim(), panel.get_ylim()
    panel.axline((0, 0), slope=1, color=GREY, linewidth=0.8, zorder=1)
    panel.set(xlim=limits[0], ylim=limits[1])
    panel.set(xlabel="search score, nats per gold token", ylabel="test score, nats per gold token")


def _mark(what: str) -> dict[str, Any]:
    """How a parent or an optimum looks. That of test is open: both optima may be one model."""
    marker, colour, size = MARKS.get(what, MARKS["parents"])
    is_open = what == OPTIMA[1]
    edge = {"markeredgecolor": colour, "markeredgewidth": 1.6} if is_open else {"markeredgewidth": 0}
    face = "none" if is_open else colour
    return {"linestyle": "", "marker": marker, "color": colour, "markersize": size, "markerfacecolor": face} | edge


def correlation(models: pd.DataFrame) -> str:
    """How search and test scores go together: Spearman's and Pearson's coefficient."""
    if len(models) < FEW:
        return "too few for a correlation"
    values = models[["search", "test"]]
    spearman, pearson = (float(np.corrcoef(own.T)[0, 1]) for own in (values.rank().to_numpy(), values.to_numpy()))
    return f"Spearman {spearman:.3f}, Pearson {pearson:.3f}"
