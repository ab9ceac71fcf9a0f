"""Everything that a pack says, read from the store: tables, plot data, takeaways, checks, provenance."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from evolora_core.errors import PackError, StageError
from evolora_core.evaluation.comparisons import compute_accuracies, compute_comparisons, facts_of
from evolora_core.report import tables
from evolora_core.report.attribution import found_frame, found_table, origin_frame, origin_table
from evolora_core.report.curves import curve_frame, curve_table
from evolora_core.report.prices import price_frame, price_table
from evolora_core.report.tables import SPLITS, rows_of
from evolora_core.report.takeaways import takeaway
from evolora_core.report.tuning import tuning_frame, tuning_table
from evolora_core.store import frame, query


@dataclass(frozen=True)
class Contents:
    """What the store knows of one suite, restricted to the seeds that are complete in every condition."""

    home: Path
    suite: str
    source: str = "the store"  # how a person calls where the numbers are from

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved suite. Raises PackError if the store has no such suite."""
        rows = query(self.home, "SELECT config FROM suites WHERE suite = ?", [self.suite]).rows
        if not rows:
            known = ", ".join(name for (name,) in query(self.home, "SELECT suite FROM suites ORDER BY suite").rows)
            raise PackError(f"{self.suite}: the store has no such suite; it has {known or 'none'}")
        result: dict[str, Any] = json.loads(rows[0][0])
        return result

    @cached_property
    def seeds(self) -> list[int]:
        """Complete seeds."""
        sql = "SELECT seed FROM complete_seeds WHERE suite = ? ORDER BY seed"
        return [seed for (seed,) in query(self.home, sql, [self.suite]).rows]

    @cached_property
    def missing(self) -> list[str]:
        """Runs that the suite declares and that were not evaluated."""
        sql = "SELECT condition, seed FROM stages WHERE suite = ? AND stage = 'evaluate'"
        done = set(query(self.home, sql, [self.suite]).rows)
        declared = [(c, s) for s in self.config["seeds"] for c in self.config["conditions"]]
        return [f"{condition} s{seed}" for condition, seed in declared if (condition, seed) not in done]

    @cached_property
    def tables(self) -> dict[str, list[tables.Table]]:
        """The tables by file name; several that share their raw data are shown one after the other."""
        paper = tables.paper_table(self.home, self.suite)
        single = {
            "comparisons": tables.comparison_table,
            "by_family": tables.family_table,
            "by_routing": tables.routing_table,
            "compute": tables.compute_table,
        }
        shown = {"paper_table": [paper, tables.economy_table(paper)]}
        shown |= {name: [make(self.home, self.suite)] for name, make in single.items()}
        prices = price_frame(self.home, self.suite)
        if not prices.empty:
            shown["prices"] = [price_table(self.suite, prices)]
        if not (origins := origin_frame(self.home, self.suite)).empty:
            shown["origins"] = [origin_table(self.suite, origins)]
        if not (found := found_frame(self.home, self.suite)).empty:
            shown["found"] = [found_table(self.suite, found)]
        trials = tuning_frame(self.home, self.suite, self.config["conditions"])
        if not trials.empty:
            shown["tuning"] = [tuning_table(self.suite, trials)]
        return shown if self.curve.empty else shown | {"curve": [curve_table(self.suite, self.curve)]}

    @cached_property
    def curve(self) -> pd.DataFrame:
        """The points of the learning curves; empty where no conditions differ in their budget alone."""
        return curve_frame(self.home, self.suite, self.config)

    @cached_property
    def comparisons(self) -> list[dict[str, Any]]:
        """Rows of the comparisons."""
        return self.tables["comparisons"][0].records()

    @cached_property
    def takeaways(self) -> list[str]:
        """One sentence for each declared comparison."""
        return [takeaway(row) for row in self.comparisons]

    @cached_property
    def manifests(self) -> list[dict[str, Any]]:
        """Manifests of the stages of this suite, with run_id, condition, seed and stage."""
        sql = "SELECT run_id, condition, seed, stage, manifest FROM stages WHERE suite = ? ORDER BY run_id, stage"
        rows = query(self.home, sql, [self.suite]).records()
        return [row | {"manifest": json.loads(row["manifest"])} for row in rows if row["stage"] != "pack"]

    @cached_property
    def facts(self) -> dict[tuple[str, int], dict[str, Any]]:
        """What each complete evaluation was made with."""
        return {
            (row["condition"], row["seed"]): facts_of(row["manifest"])
            for row in self.manifests
            if row["stage"] == "evaluate" and row["seed"] in self.seeds
        }

    def frame(self, sql: str, **parameters: Any) -> pd.DataFrame:
        """A query with named parameters."""
        return frame(self.home, sql, parameters)

    @cached_property
    def checks(self) -> dict[str, Any]:
        """What must hold whatever the result: leaks, the ledger, merges that live, runs that died, idle adapters."""
        sql = """
            WITH merges AS (FROM assimilations JOIN complete_seeds USING (suite, seed) WHERE suite = $suite),
                lived AS (FROM generations JOIN complete_seeds USING (suite, seed) WHERE suite = $suite),
                members AS (FROM organelles JOIN complete_seeds USING (suite, seed) WHERE suite = $suite)
            SELECT
                (SELECT sum(shared)::BIGINT FROM leaks WHERE suite = $suite) AS prompts_shared_between_splits,
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
        diverged = sum(bool(row["manifest"].get("summary", {}).get("diverged")) for row in self.manifests)
        trained = [row for row in self.manifests if row["condition"] != "tuning"]  # a trial counts its judging too
        budgets = [(row["manifest"].get("flops"), _document(row).get("config", {})) for row in trained]
        shares = [flops / config["budget_flops"] for flops, config in budgets if config.get("budget_flops")]
        return query(self.home, sql, {"suite": self.suite}).records()[0] | {
            "fine_tunings_that_diverged": diverged,
            "largest_share_of_a_budget_that_was_spent": round(max(shares), 3) if shares else None,
        }

    @cached_property
    def prompts_of_other_seeds(self) -> dict[str, float]:
        """Split -> the share of its prompts that another seed has too: items of small families are drawn again."""
        sql = """
            WITH asked AS (
                SELECT DISTINCT split, seed, prompt FROM evaluations JOIN complete_seeds USING (suite, seed)
                WHERE suite = $suite
            ), counted AS (SELECT split, prompt, count(*) AS seeds FROM asked GROUP BY ALL)
            SELECT split, coalesce(sum(seeds) FILTER (WHERE seeds > 1), 0) / sum(seeds) AS share
            FROM counted GROUP BY split
        """
        shares = {row["split"]: row["share"] for row in query(self.home, sql, {"suite": self.suite}).records()}
        return {split: shares[split] for split in SPLITS if split in shares}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """For programs: the numbers of the tables and the sentences."""
        return {
            "suite": self.suite,
            "seeds": self.seeds,
            "missing_runs": self.missing,
            "paper_table": self.tables["paper_table"][0].records(),
            "comparisons": self.comparisons,
            "takeaways": self.takeaways,
            "checks": self.checks,
        }

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Where the numbers come from: configuration, hashes, versions, prices, threads."""
        libraries: dict[str, list[str]] = {}
        for row in self.manifests:
            for name, version in _document(row).get("libraries", {}).items():
                libraries.setdefault(name, [])
                libraries[name] = sorted({*libraries[name], version})
        calibration = "SELECT seed, key, value, note FROM calibration WHERE suite = $suite ORDER BY ALL"
        splits = "SELECT seed, split, sum(n)::BIGINT AS n FROM splits WHERE suite = $suite GROUP BY ALL ORDER BY ALL"
        return {
            "suite": self.suite,
            "config": self.config,
            "measured_with": [
                {"condition": condition, "seed": seed} | facts
                for (condition, seed), facts in sorted(self.facts.items())
            ],
            "host": next((_document(r)["host"] for r in self.manifests if _document(r).get("host")), None),
            "libraries": {name: " and ".join(versions) for name, versions in sorted(libraries.items())},
            "prices": rows_of(self.frame(calibration, suite=self.suite)),
            "splits": rows_of(self.frame(splits, suite=self.suite)),
            "stages": [
                {"run_id": row["run_id"], "stage": row["stage"], "identity": row["manifest"].get("identity")}
                | {"code": _document(row).get("code"), "seconds": row["manifest"].get("seconds")}
                for row in self.manifests
            ],
        }

    def counted(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of the tables `comparisons` and `accuracies`, computed from the graded items. Raises StageError
        where conditions were not measured alike.
        """
        items = self.frame(
            "SELECT condition, seed, arm, split, task_id, family, correct FROM evaluations "
            "JOIN complete_seeds USING (suite, seed) WHERE suite = $suite",
            suite=self.suite,
        )
        evaluation = self.config["evaluation"]
        return {
            "comparisons": compute_comparisons(items, self.facts, evaluation["comparisons"], evaluation["bootstrap"]),
            "accuracies": compute_accuracies(items, evaluation["bootstrap"]),
        }

    def recount(self) -> list[str]:
        """Compute accuracies and comparisons anew from the graded items; returns how the store's tables differ."""
        try:
            counted = self.counted()
        except StageError as error:
            return [f"comparisons: {error}"]
        stored = "SELECT arm, split, family, seeds, n, acc, lo, hi FROM accuracies WHERE suite = $suite"
        key = ("split", "a", "b", "routing")
        return [
            *_compare_rows("comparisons", key, self.comparisons, counted["comparisons"], self.source),
            *_compare_rows(
                "accuracies",
                ("arm", "split", "family"),
                rows_of(self.frame(stored, suite=self.suite)),
                counted["accuracies"],
                self.source,
            ),
        ]


def same(a: Any, b: Any) -> bool:
    """Equal, or numbers that differ in rounding alone (sums of floats depend on the order of their terms)."""
    if (
        isinstance(a, float | int)
        and isinstance(b, float | int)
        and not isinstance(a, bool)
        and not isinstance(b, bool)
    ):
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b)) + 1e-12
    return bool(a == b)


def _compare_rows(
    table: str, key: tuple[str, ...], stored: list[dict[str, Any]], computed: list[dict[str, Any]], source: str
) -> list[str]:
    """Differences between two versions of a table, one line each."""

    def by_key(rows: list[dict[str, Any]]) -> Mapping[tuple[Any, ...], dict[str, Any]]:
        return {tuple(row[k] for k in key): row for row in rows}

    old, new = by_key(stored), by_key(computed)
    lines = []
    for place in sorted(old.keys() | new.keys()):
        name = f"{table} {' '.join(place)}"
        if place not in old or place not in new:
            where = f"{source}, but not from its items" if place in old else f"its items, but not in {source}"
            lines.append(f"{name}: is in {where}")
            continue
        lines += [
            f"{name}: {column} is {old[place][column]} in {source} and {value} from its items"
            for column, value in new[place].items()
            if not same(old[place][column], value)
        ]
    return lines


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = row["manifest"].get("identity_document", {})
    return result
