"""Plots of what is bought and at which price: accuracy for FLOPs."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from evolora_core.report.plots import LOOKS, STYLE, legend_below, looks_of

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
        looks = looks_of(points["condition"])
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
        panels[0].set_ylabel("accuracy, %")
        level = Line2D([], [], color=LOOKS[FROZEN][0], label=FROZEN)
        legend_below(figure, list(dict.fromkeys(trained["curve"])), line=True, marker=True, more=[level])
        return figure


def _flops_axis(panel: Axes, flops: pd.Series) -> None:
    """A logarithmic axis with ticks at 1, 2 and 5 of the power of a thousand that suits the FLOPs."""
    power = 3 * int(np.log10(flops.min() * flops.max()) / 2 // 3)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 10.0**power:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel(rf"FLOPs spent, $10^{{{power}}}$")
