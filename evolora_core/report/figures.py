"""The plots of a pack: what each shows, read from the store, and the function that draws it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from evolora_core.families.registry import full_name
from evolora_core.report import plots, tradeoffs
from evolora_core.report.contents import Contents
from evolora_core.report.curves import curves

DRAW: dict[str, Callable[[pd.DataFrame], Figure]] = {
    "accuracy_by_family": plots.accuracy_by_family,
    "gain_and_retention": plots.gain_and_retention,
    "comparisons": plots.comparisons,
    "curve": tradeoffs.curve,
    "frontier": tradeoffs.frontier,
    "net_and_roi": plots.net_and_roi,
    "energy_and_population": plots.energy_and_population,
    "lineage": plots.lineage,
}

BY_FAMILY = ("family", "cell")  # routers that send a family nobody was trained on to the host

_GENERATIONS = """
    SELECT condition, seed, generation, {columns}
    FROM generation_summary JOIN complete_seeds USING (suite, seed) JOIN suites USING (suite)
    WHERE suite = $suite
    ORDER BY list_position(conditions, condition), seed, generation
"""

_BY_FAMILY = """
    SELECT split, family, condition, acc, lo, hi
    FROM accuracy JOIN suites USING (suite)
    WHERE suite = $suite AND arm = condition AND family <> '*'
    ORDER BY split, family, list_position(conditions, condition)
"""

_COMPARISONS = """
    SELECT split, a, b, routing, diff, lo, hi, verdict FROM comparison JOIN suites USING (suite) WHERE suite = $suite
    ORDER BY list_position(['holdout_id', 'holdout_ood', 'retention'], split), list_position(conditions, a),
        list_position(conditions, b), routing
"""

# Gain over `frozen` of the same seed, and retention, by run and routing. The bare host has no routing and stands in
# the panel of each.
_GAIN = """
    WITH arms AS (
        SELECT condition, seed, arm, max(acc) FILTER (WHERE split = 'holdout_id') AS id,
            max(acc) FILTER (WHERE split = 'retention') AS retention
        FROM arm_accuracy JOIN complete_seeds USING (suite, seed) WHERE suite = $suite GROUP BY ALL
    ),
    base AS (SELECT * FROM arms WHERE arm = 'frozen'),
    adapted AS (
        SELECT *, coalesce(nullif(split_part(arm, ':', 2), ''), $headline) AS routing FROM arms
        WHERE condition <> 'frozen'
    ),
    shown AS (
        SELECT condition, routing, seed, id, retention FROM adapted
        UNION ALL
        SELECT condition, routing, seed, id, retention FROM base CROSS JOIN (SELECT DISTINCT routing FROM adapted)
    )
    SELECT shown.condition, routing, seed, shown.id - base.id AS gain, shown.retention
    FROM shown JOIN base USING (seed) JOIN suites ON suites.suite = $suite
    ORDER BY routing <> $headline, routing, list_position(conditions, shown.condition), seed
"""

# Gain and change of retention over the frozen host of the same seed, on the same items, by run and strength.
_FRONTIER = """
    WITH shares AS (
        SELECT condition, seed, strength, max(correct / n) FILTER (WHERE split = 'holdout_id') AS id,
            max(correct / n) FILTER (WHERE split = 'retention') AS retention
        FROM frontier JOIN complete_seeds USING (suite, seed) WHERE suite = $suite GROUP BY ALL
    )
    SELECT shares.condition, seed, shares.strength, shares.id - base.id AS gain,
        shares.retention - base.retention AS change
    FROM shares JOIN shares AS base USING (seed) JOIN suites ON suites.suite = $suite
    WHERE base.condition = 'frozen' AND shares.condition <> 'frozen'
    ORDER BY list_position(conditions, shares.condition), shares.strength, seed
"""

# Of the seed with most merges, the lowest among equals.
_LINEAGE = """
    WITH merged AS (SELECT run_id, count(*) AS merges FROM organelles WHERE origin = 'merge' GROUP BY run_id),
    shown AS (
        SELECT run_id FROM stages JOIN complete_seeds USING (suite, seed) LEFT JOIN merged USING (run_id)
        WHERE suite = $suite AND condition = 'ecology' AND stage = 'evolve'
        ORDER BY coalesce(merges, 0) DESC, seed LIMIT 1
    )
    SELECT o.seed, o.organelle, o.origin, o.born, o.died, l.parent, l.generation AS joined
    FROM organelles AS o JOIN shown USING (run_id)
    LEFT JOIN lineage AS l ON l.run_id = o.run_id AND l.child = o.organelle AND l.role = 'parent'
    ORDER BY o.organelle, l.parent
"""


def read(contents: Contents) -> dict[str, pd.DataFrame]:
    """The data of each plot by its file name, in the order of the README; a plot without data is left out."""
    suite = {"suite": contents.suite}
    data = {
        "accuracy_by_family": contents.frame(_BY_FAMILY, **suite),
        "gain_and_retention": along_curves(
            contents.frame(_GAIN, **suite, headline=headline(contents)), contents.config
        ),
        "comparisons": contents.frame(_COMPARISONS, **suite),
        "curve": contents.curve,
        "frontier": along_curves(contents.frame(_FRONTIER, **suite), contents.config),
        "net_and_roi": contents.frame(_GENERATIONS.format(columns="mean_net, mean_roi"), **suite),
        "energy_and_population": contents.frame(_GENERATIONS.format(columns="energy_total, population"), **suite),
        "lineage": contents.frame(_LINEAGE, **suite),
    }
    return {name: table for name, table in data.items() if not table.empty}


def along_curves(points: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
    """With the columns `curve` and `budget`: a condition on no learning curve is one of its own."""
    members = curves(config)
    places = [members.get(condition, (condition, 1.0)) for condition in points["condition"]]
    return points.assign(curve=[name for name, _ in places], budget=[budget for _, budget in places])


def headline(contents: Contents) -> str:
    """The routing whose accuracies are the headline."""
    text: str = contents.config["evaluation"]["routings"][0]
    return text


def draw(
    data: Mapping[str, pd.DataFrame], folder: Path, suite: str, config: Mapping[str, Any], form: str = "png"
) -> None:
    """Every plot as PNG or SVG; `config` is the resolved suite."""
    for name, table in data.items():
        plots.save(figure(name, table, suite, config), folder, name, form)


def figure(name: str, table: pd.DataFrame, suite: str, config: Mapping[str, Any]) -> Figure:
    """One plot under the names of the suite and its host."""
    shown, note = without_host(name, table, config)
    drawn = DRAW[name](shown)
    plots.head(drawn, f"{suite}, host {config['host']}{note}")
    return drawn


def without_host(name: str, table: pd.DataFrame, config: Mapping[str, Any]) -> tuple[pd.DataFrame, str]:
    """The rows of a plot's panels, and a note, without the panels in which every arm is the host by construction: what
    a router by family answers, or retains, of families that nobody was trained on. All panels, if none would be left.
    """
    trained = {full_name(family) for family in config["data"]["train_families"]}
    left_out, column = [], "split"
    if name == "accuracy_by_family" and config["evaluation"]["routings"][0] in BY_FAMILY:
        left_out = [split for split, rows in table.groupby("split") if trained.isdisjoint(rows["family"])]
    elif name == "gain_and_retention":
        retained = {full_name(family) for family in config["data"]["retention_families"]}
        left_out, column = list(BY_FAMILY) if trained.isdisjoint(retained) else [], "routing"
    kept = table[~table[column].isin(left_out)] if left_out else table
    if kept.empty or len(kept) == len(table):
        return table, ""
    if column == "routing":
        return kept, "; routed by family, retention is the host's"
    words = " and ".join(title for split, title in plots.TITLES.items() if split in left_out)
    return kept, f"; {words}: the host's, as no arm has these families"
