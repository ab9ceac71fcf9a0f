"""The plots of the exhaustive table: what replayed runs have left of the gain, and what a score says of the truth."""

from collections.abc import Mapping

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evolora_core.report.plots import STYLE
from evolora_core.report.stored import StoredSuite
from evolora_core.searches.attention.pack.exhaustive import program_rows, replay_rows
from evolora_core.searches.attention.stages.replay import LEFT

COLOURS: Mapping[str, str] = {
    "evolution": "#0072B2",
    "evolution-no-crossover": "#56B4E9",
    "evolution-archive": "#CC79A7",
    "evolution-islands": "#D55E00",
    "greedy": "#009E73",
    "random": "#E69F00",
}
BLACK, GREY = "#222222", "#7f7f7f"
BAND = 0.12  # opacity

_CURVES = """
    SELECT seed, strategy, programs, regret, regret_lo AS lo, regret_hi AS hi, within, within_lo, within_hi,
        truth_within
    FROM attention_regret JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    ORDER BY seed, strategy, programs
"""


def replay_curves(stored: StoredSuite) -> pd.DataFrame:
    """Regret (nats: mean, 10th and 90th percentile), shares of the runs within a tenth of the gain by score and by
    truth, by seed, strategy and programs; beside them a tenth of the gain, and where the declared effect is read.
    """
    declared = replay_rows(stored)
    own = declared.assign(tenth=LEFT * declared["gain"], read_at=declared["programs"])
    keys = ["seed", "strategy"]
    return own[[*keys, "tenth", "read_at"]].merge(stored.frame(_CURVES), on=keys, how="inner", sort=False)


def replays(curves: pd.DataFrame) -> Figure:
    """Left: mean regret against programs with the 10th to 90th percentile of the runs. Right: share of the runs that
    have at most a tenth of the gain left, with its 95 % interval; dotted, the same of the truth. A row for each seed.
    """
    with matplotlib.rc_context(fname=STYLE):
        seeds = sorted(set(curves["seed"]))
        figure = Figure(figsize=(8.4, 0.4 + 3.4 * len(seeds)))
        panels = figure.subplots(len(seeds), 2, squeeze=False)
        for (left, right), seed in zip(panels, seeds, strict=True):
            own = curves[curves["seed"] == seed]
            for strategy, run in own.groupby("strategy", sort=False):
                colour, x = COLOURS[str(strategy)], run["programs"]
                _line(left, colour, x, run["regret"], run["lo"], run["hi"], str(strategy))
                share, lo, hi = (100 * run[name] for name in ("within", "within_lo", "within_hi"))
                _line(right, colour, x, share, lo, hi, str(strategy))
                right.plot(
                    x, 100 * run["truth_within"], drawstyle="steps-post", color=colour, linestyle=":", linewidth=1
                )
            left.axhline(float(own["tenth"].iloc[0]), color=BLACK, linewidth=0.9, linestyle="--", zorder=1)
            for panel in (left, right):
                panel.axvline(float(own["read_at"].iloc[0]), color=GREY, linewidth=0.9, linestyle=":", zorder=1)
                panel.set(xlim=(1, own["programs"].max()), xlabel="programs that a run has measured")
            left.set(ylabel="regret, nats (dashed: a tenth of the gain)", ylim=(0, None), title=f"seed {seed}")
            right.set(ylabel="runs within a tenth of the gain, %", ylim=(-2, 102), title="dotted: by the truth")
            left.legend(loc="upper right", fontsize=7)
        return figure


def _line(panel: Axes, colour: str, x: pd.Series, y: pd.Series, low: pd.Series, high: pd.Series, label: str) -> None:
    panel.fill_between(x, low, high, step="post", color=colour, alpha=BAND, linewidth=0)
    panel.plot(x, y, drawstyle="steps-post", color=colour, label=label)


def table_points(stored: StoredSuite) -> pd.DataFrame:
    """Score and truth (nats) of every program that has both."""
    rows = program_rows(stored)
    return rows[["seed", "program", "score", "truth"]].dropna().reset_index(drop=True)


def table_programs(points: pd.DataFrame) -> Figure:
    """Score against truth of every program, a panel for each seed."""
    with matplotlib.rc_context(fname=STYLE):
        seeds = sorted(set(points["seed"]))
        figure = Figure(figsize=(4.6 * len(seeds), 4.2))
        for panel, seed in zip(figure.subplots(1, len(seeds), squeeze=False)[0], seeds, strict=True):
            own = points[points["seed"] == seed]
            panel.plot(own["score"], own["truth"], "o", markersize=3, alpha=0.5, color=COLOURS["evolution"])
            best = own.loc[own["score"].idxmax()]
            panel.plot(best["score"], best["truth"], "*", markersize=11, color="#D55E00", label="best score")
            panel.axline((0, 0), slope=1, color=GREY, linewidth=0.8, label="equal")
            panel.set(
                xlabel="score: gain with the first training seed, nats",
                ylabel="truth: gain with the other seeds, nats",
                title=f"seed {seed}: {len(own)} programs with a score",
            )
            panel.legend(loc="upper left", fontsize=7)
        return figure
