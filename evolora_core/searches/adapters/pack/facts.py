"""What must hold in a pack of the adapter search, and what its provenance and README say beside the tables."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from evolora_core.language.splits import HOLDOUTS, where
from evolora_core.report.sections import leaks
from evolora_core.report.stored import StoredSuite, document_of
from evolora_core.report.tables import rows_of
from evolora_core.searches.adapters.pack.curves import headline
from evolora_core.searches.adapters.pack.unanswered import unanswered

_CHECKS = """
    WITH merges AS (FROM assimilations JOIN complete_seeds USING (suite, seed) WHERE suite = $suite),
        lived AS (FROM generations JOIN complete_seeds USING (suite, seed) WHERE suite = $suite),
        members AS (FROM organelles JOIN complete_seeds USING (suite, seed) WHERE suite = $suite)
    SELECT
        (SELECT max(abs(balance)) FROM ledger_balance WHERE suite = $suite) AS largest_ledger_imbalance,
        (SELECT count(*) FROM merges WHERE accepted) AS merges_accepted,
        (SELECT count(*) FROM merges) AS merges_tried,
        (SELECT count(DISTINCT run_id) FROM lived) AS evolved_runs,
        (SELECT count(*) FROM (SELECT arg_max(population, generation) AS last FROM lived GROUP BY run_id)
            WHERE last = 0) AS evolved_runs_that_died_out,
        (SELECT count(*) FROM members JOIN merges USING (run_id)
            WHERE organelle = child AND accepted AND (died IS NULL OR died > born))
            AS merged_children_that_outlived_their_birth,
        (SELECT count(*) FROM members AS o ANTI JOIN merges AS m
            ON o.run_id = m.run_id AND o.organelle = m.child
            WHERE origin = 'merge') AS sums_of_learners,
        (SELECT count(*) FROM members WHERE died IS NULL AND delta_norm = 0)
            AS living_adapters_that_do_nothing
"""
_SPENT = """
    WITH run AS (FROM run_summary JOIN complete_seeds USING (suite, seed) WHERE suite = $suite)
    SELECT sum(sft.total_flops) / sum(ecology.total_flops) FROM run AS sft JOIN run AS ecology USING (seed)
    WHERE sft.condition = 'sft' AND ecology.condition = 'ecology' AND sft.total_flops IS NOT NULL
"""
# In this order.
_MEASURED = ("condition", "seed", "host", "tokenizer", "template", "dtype", "decoding", "dataset", "code")


def checks(stored: StoredSuite) -> dict[str, Any]:
    """Leaks, the ledger, merges that live, runs that died, idle adapters, trainings that went wrong."""
    diverged = sum(bool(row["manifest"].get("summary", {}).get("diverged")) for row in stored.manifests)
    trained = [row for row in stored.manifests if row["condition"] != "tuning"]  # a trial counts its judging too
    budgets = [(row["manifest"].get("flops"), document_of(row).get("config", {})) for row in trained]
    shares = [flops / config["budget_flops"] for flops, config in budgets if config.get("budget_flops")]
    (counts,) = rows_of(stored.frame(_CHECKS))
    return {
        **leaks(stored),
        **counts,
        "fine_tunings_that_diverged": diverged,
        "largest_share_of_a_budget_that_was_spent": round(max(shares), 3) if shares else None,
    }


def provenance(stored: StoredSuite) -> dict[str, Any]:
    """What each evaluation was measured with, in the order in which people ask; the prices of the ecology."""
    calibration = "SELECT seed, key, value, note FROM calibration WHERE suite = $suite ORDER BY ALL"
    measured = [{"condition": c, "seed": seed} | facts for (c, seed), facts in sorted(stored.facts.items())]
    order = dict.fromkeys(_MEASURED)
    return {
        "measured_with": [{key: row[key] for key in [*order, *row] if key in row} for row in measured],
        "prices": rows_of(stored.frame(calibration)),
    }


def context(stored: StoredSuite) -> dict[str, Any]:
    """Names in the README's template. `spent`: FLOPs of `sft` relative to those of `ecology`, over the seeds of both;
    None where there are none.
    """
    spent: Any = stored.frame(_SPENT).iat[0, 0]
    return {
        "headline": headline(stored.config),
        "signal": signal(stored.config["ecology"]),
        "spent": None if pd.isna(spent) else spent,
    }


def remarks(stored: StoredSuite) -> list[str]:
    """What is to be known before means are read: families that an arm never answers, and intervals that are of another
    bootstrap than the README says of all, where seeds share items.
    """
    crossed = [where(split) for split in HOLDOUTS if split in stored.splits_of_shared_items]
    told = (
        f"Seeds share items {' and '.join(crossed)}. Intervals there are of a bootstrap that draws seeds and items "
        "crossed, also where this page says that it draws seeds, then items."
    )
    return [*unanswered(stored), *([told] if crossed else [])]


def signal(ecology: Mapping[str, Any]) -> str:
    """What an ecology learns from, in words."""
    plasticity = ecology["plasticity"]
    if labels := ecology.get("memory", {}).get("labels", 0):
        return f"which sees rewards, and begins with {labels} gold answers a family"
    if plasticity["rule"] == "gold":
        return "which sees gold answers too"
    # Without the key the suite is of a version in which it was no setting and always counted.
    if plasticity["rule"] == "search" and plasticity.get("partial_credit", True):
        return "which sees rewards only, and searches on where the verifier gives partial credit"
    return "which sees rewards only"
