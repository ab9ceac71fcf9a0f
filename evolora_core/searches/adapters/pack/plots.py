"""The plots of a pack of the adapter search. Each function draws one figure from rows of the store.

Lines are means over seeds; bands reach from the lowest to the highest seed.
"""

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from evolora_core.language.splits import in_order, title
from evolora_core.report.plots import STYLE
from evolora_core.searches.adapters.pack.looks import ORIGINS, draw_intervals, legend_below, looks_of

BORN = {
    "mutation": "child by mutation",
    "merge": "child by merge, or sum of learners",
    "copy": "successor of a contest's winner",
}
WIDTHS = {"mutation": 0.9, "merge": 1.5, "copy": 1.2}  # of the lines of births


def net_and_roi(generations: pd.DataFrame) -> Figure:
    """Net energy and return on investment per episode over generations.

    `generations`: condition, seed, generation, mean_net, mean_roi.
    """
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.0, 5.2))
        net, roi = figure.subplots(2, 1, sharex=True)
        _bands(net, generations, "mean_net")
        _bands(roi, generations, "mean_roi")
        net.axhline(0, color="#444444", linewidth=0.8, linestyle="--")
        roi.axhline(1, color="#444444", linewidth=0.8, linestyle="--")
        net.set(title="Net energy per episode", ylabel="energy units (reward − cost)")
        roi.set(title="Return on investment", ylabel="reward / cost", xlabel="generation")
        _finish_generations(figure, [net, roi], generations)
        return figure


def energy_and_population(generations: pd.DataFrame) -> Figure:
    """The sum of all balances, and the number of living organelles. `generations`: …, energy_total, population."""
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(7.0, 5.2))
        energy, population = figure.subplots(2, 1, sharex=True)
        _bands(energy, generations, "energy_total")
        _bands(population, generations, "population")
        energy.set(title="Energy of all organelles", ylabel="energy units")
        population.set(title="Population", ylabel="organelles", xlabel="generation")
        energy.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        population.set_ylim(bottom=0)
        population.yaxis.set_major_locator(MaxNLocator(integer=True))
        _finish_generations(figure, [energy, population], generations)
        return figure


def gain_and_retention(accuracies: pd.DataFrame) -> Figure:
    """Gain against retention: one point per condition and seed, one panel per routing. Conditions of
    one learning curve look alike, the larger the more they may spend.

    `accuracies`: condition, curve, budget, routing, seed, gain (holdout_id over frozen, same seed), retention; both
    shares.
    """
    with matplotlib.rc_context(fname=STYLE):
        routings = list(dict.fromkeys(accuracies["routing"]))
        figure = Figure(figsize=(1.0 + 3.6 * len(routings), 4.2))
        panels = np.atleast_1d(figure.subplots(1, len(routings), sharex=True, sharey=True))
        looks = looks_of(accuracies["curve"])
        for panel, routing in zip(panels, routings, strict=True):
            mine = accuracies[accuracies["routing"] == routing]
            for name, points in mine.groupby("curve", sort=False):
                colour, marker = looks[str(name)]
                panel.scatter(
                    100 * points["gain"], 100 * points["retention"], c=colour, marker=marker, alpha=0.85,
                    s=42 * np.sqrt(points["budget"]), edgecolors="white", linewidths=0.6,
                )  # fmt: skip
            panel.axvline(0, color="#444444", linewidth=0.8, linestyle="--")
            panel.set(title=f"Routing: {routing}", xlabel="gain in distribution, points")
        panels[0].set_xlim(*_at_least_one_wide(*panels[0].get_xlim()))  # all panels share it, and have their points now
        panels[0].set_ylabel("retention accuracy, % (a mark is a seed)")
        larger = Line2D([], [], color="#777777", marker="o", markersize=9, linestyle="", label="larger: more FLOPs")
        more = [larger] if accuracies["budget"].nunique() > 1 else []
        legend_below(figure, list(dict.fromkeys(accuracies["curve"])), marker=True, more=more)
        return figure


def accuracy_by_family(accuracies: pd.DataFrame) -> Figure:
    """Accuracy with 95 % intervals, families as rows, one panel per split.

    `accuracies`: split, family, condition, acc, lo, hi (shares).
    """
    with matplotlib.rc_context(fname=STYLE):
        splits = in_order(set(accuracies["split"]))
        conditions = list(dict.fromkeys(accuracies["condition"]))
        families = {split: sorted(set(accuracies.loc[accuracies["split"] == split, "family"])) for split in splits}
        rows = [len(families[split]) for split in splits]
        figure = Figure(figsize=(7.0, 1.2 + (0.12 * len(conditions) + 0.1) * sum(rows) + 0.4 * len(splits)))
        panels = np.atleast_1d(figure.subplots(len(splits), 1, sharex=True, height_ratios=rows))
        for panel, split in zip(panels, splits, strict=True):
            own = accuracies[accuracies["split"] == split]
            draw_intervals(panel, own, conditions, families[split], "family", ("acc", "lo", "hi"))
            panel.set(title=title(split).capitalize())
        panels[-1].set(xlabel="accuracy, % (95 % intervals)", xlim=(0, 101))
        legend_below(figure, conditions, marker=True)
        return figure


def lineage(lives: pd.DataFrame) -> Figure:
    """Lives and births of one run: an organelle is a line from birth to death, a child is tied to its parents' lines.

    `lives`: seed, organelle, origin (founder, mutation, merge), born, died (NaN: alive), one row for each parent and
    the generation in which it joined (both NaN: none).
    """
    with matplotlib.rc_context(fname=STYLE):
        order = lives.drop_duplicates("organelle").sort_values(["born", "organelle"], ignore_index=True)
        edges = lives.dropna(subset=["parent"])
        generations = int(lives[["born", "died"]].max().max()) + 1
        place = {organelle: i for i, organelle in enumerate(order["organelle"])}
        figure = Figure(figsize=(7.0, min(9.0, 1.8 + 0.13 * len(place))))
        panel = figure.subplots()
        died = pd.to_numeric(order["died"])  # in a CSV where nobody died, nothing says that these are numbers
        ends = died.add(0.9).fillna(generations).to_numpy(dtype=float)  # at the end of the generation
        # Births of one generation stand side by side, in the order of birth.
        nth = order.groupby("born").cumcount() / order.groupby("born")["organelle"].transform("size")
        at = dict(
            zip(order["organelle"], order["born"] + 0.8 * nth.where(order["origin"] != "founder", 0), strict=True)
        )
        panel.hlines(range(len(place)), [at[o] for o in order["organelle"]], ends, color="#b8b8b8", linewidth=1.4)
        dead = order["died"].notna().to_numpy()
        panel.scatter(ends[dead], np.flatnonzero(dead), marker="x", s=16, color="#7f7f7f", linewidths=1, zorder=3)
        for origin, width in WIDTHS.items():
            colour = ORIGINS[origin]
            born = order[order["origin"] == origin]
            mine = edges[edges["organelle"].isin(born["organelle"])]
            x, parents = mine["organelle"].map(at), mine["parent"].map(place)
            panel.vlines(x, parents, mine["organelle"].map(place), color=colour, linewidth=width, alpha=0.8)
            panel.scatter(x, parents, s=9 * width, facecolors="white", edgecolors=colour, linewidths=width, zorder=3)
            panel.scatter(born["organelle"].map(at), born.index, s=18 * width, color=colour, zorder=4)
        panel.set(
            title=f"Lineage of {order['condition'][0]}, seed {order['seed'][0]}",
            xlabel="generation",
            ylabel="organelles,\nthe eldest on top",
            yticks=[],
        )
        panel.set_xlim(-0.3, generations + 0.3)
        panel.set_ylim(len(place) - 0.3, -0.7)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(axis="y", visible=False)
        shown = [
            Line2D([], [], color="#b8b8b8", label="alive"),
            Line2D([], [], color="#7f7f7f", marker="x", linestyle="", markersize=5, label="died"),
        ]
        for origin, width in WIDTHS.items():
            if origin == "copy" and origin not in set(order["origin"]):
                continue  # of suites with contests only
            size = 4.0 if width < 1.2 else 6.0
            shown.append(Line2D([], [], color=ORIGINS[origin], marker="o", markersize=size, label=BORN[origin]))
        parent = "parent; where its line has ended, its copy in the archive"
        shown.append(
            Line2D(
                [], [], color="#7f7f7f", marker="o", markerfacecolor="white", linestyle="", markersize=5, label=parent
            )
        )
        figure.legend(handles=shown, loc="outside lower center", ncols=3)
        return figure


def _at_least_one_wide(low: float, high: float) -> tuple[float, float]:
    """Limits in points; where nothing differs, rounding errors must not be what the axis shows."""
    missing = max(0.0, 1.0 - (high - low)) / 2
    return low - missing, high + missing


def _bands(panel: Axes, generations: pd.DataFrame, column: str) -> None:
    """Mean over seeds and the range of the seeds, by condition; dotted where some runs have ended, and the mean is that
    of the others.
    """
    looks = looks_of(generations["condition"])
    for condition, runs in generations.groupby("condition", sort=False):
        colour, _ = looks[str(condition)]
        by_generation = runs.groupby("generation")[column]
        mean, low, high = by_generation.mean(), by_generation.min(), by_generation.max()
        panel.fill_between(mean.index, low, high, color=colour, alpha=0.18, linewidth=0)
        all_run = by_generation.count() == runs["seed"].nunique()
        panel.plot(mean.index, mean, color=colour, linestyle=":")
        panel.plot(mean.index, mean.where(all_run), color=colour, marker="o" if all_run.sum() == 1 else None)


def _finish_generations(figure: Figure, panels: Sequence[Axes], generations: pd.DataFrame) -> None:
    for panel in panels:
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.margins(x=0.02)
    seeds = generations["seed"].nunique()
    spread = Patch(
        color="#bbbbbb",
        alpha=0.5,
        linewidth=0,
        label=f"range of {seeds} seeds; dotted: some have ended",
    )
    legend_below(figure, list(dict.fromkeys(generations["condition"])), line=True, more=[spread] if seeds > 1 else [])
