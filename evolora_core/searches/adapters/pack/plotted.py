"""The data of the plots, and which of it says something."""

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from evolora_core.language.families.names import ALIASES
from evolora_core.language.splits import HOLDOUTS, in_order, title
from evolora_core.report.sections import Config
from evolora_core.report.stored import StoredSuite
from evolora_core.searches.adapters.pack.curves import curves, headline

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
    ORDER BY list_position($holdouts, split), split, family, list_position(conditions, condition)
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
        WHERE suite = $suite AND condition = $lead AND stage = 'evolve'
        ORDER BY coalesce(merges, 0) DESC, seed LIMIT 1
    )
    SELECT o.condition, o.seed, o.organelle, o.origin, o.born, o.died, l.parent, l.generation AS joined
    FROM organelles AS o JOIN shown USING (run_id)
    LEFT JOIN lineage AS l ON l.run_id = o.run_id AND l.child = o.organelle AND l.role = 'parent'
    ORDER BY o.organelle, l.parent
"""


def family_points(stored: StoredSuite) -> pd.DataFrame:
    """Accuracy of the headline by split, family and condition."""
    return stored.frame(_BY_FAMILY, holdouts=list(HOLDOUTS))


def gain_points(stored: StoredSuite) -> pd.DataFrame:
    """Gain and retention by condition, routing and seed."""
    return along_curves(stored.frame(_GAIN, headline=headline(stored.config)), stored.config)


def frontier_points(stored: StoredSuite) -> pd.DataFrame:
    """Gain and change of retention by condition, strength and seed."""
    return along_curves(stored.frame(_FRONTIER), stored.config)


def net_and_roi_lines(stored: StoredSuite) -> pd.DataFrame:
    """Net energy and ROI by condition, seed and generation."""
    return stored.frame(_GENERATIONS.format(columns="mean_net, mean_roi"))


def energy_lines(stored: StoredSuite) -> pd.DataFrame:
    """Energy and population by condition, seed and generation."""
    return stored.frame(_GENERATIONS.format(columns="energy_total, population"))


def lives(stored: StoredSuite) -> pd.DataFrame:
    """Organelles of one run with their parents, of the condition whose compute is the budget."""
    return stored.frame(_LINEAGE, lead=stored.config.get("budget_of", "ecology"))


def along_curves(points: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
    """With the columns `curve` and `budget`: a condition on no learning curve is one of its own."""
    members = curves(config)
    places = [members.get(condition, (condition, 1.0)) for condition in points["condition"]]
    return points.assign(curve=[name for name, _ in places], budget=[budget for _, budget in places])


def trained_splits(rows: pd.DataFrame, config: Config) -> tuple[pd.DataFrame, str]:
    """The rows of splits whose families some arm trained on, if the headline router goes by family: what it answers of
    other families is the host by construction.
    """
    if headline(config) not in BY_FAMILY:
        return rows, ""
    trained = _families(config, "train_families")
    left_out = {str(split) for split, own in rows.groupby("split") if trained.isdisjoint(own["family"])}
    words = " and ".join(map(title, in_order(left_out)))
    return _without(rows, "split", left_out, f"; {words}: the host's, as no arm has these families")


def informative_routings(rows: pd.DataFrame, config: Config) -> tuple[pd.DataFrame, str]:
    """The rows of routers under which an arm can forget: one by family retains what nobody trained on."""
    trained, retained = (_families(config, kind) for kind in ("train_families", "retention_families"))
    left_out = BY_FAMILY if trained.isdisjoint(retained) else ()
    return _without(rows, "routing", left_out, "; routed by family, retention is the host's")


def _without(rows: pd.DataFrame, column: str, left_out: Collection[str], note: str) -> tuple[pd.DataFrame, str]:
    """The other panels, with the note; all of them if none would be left."""
    kept = rows[~rows[column].isin(list(left_out))]
    return (rows, "") if kept.empty or len(kept) == len(rows) else (kept, note)


def _families(config: Mapping[str, Any], key: str) -> set[str]:
    """The names that items of a list of families have. Families of a user have no other names."""
    return {ALIASES.get(name, name) for name in config["data"][key]}
