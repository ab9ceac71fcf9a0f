"""What the store knows of one suite, whatever its search: configuration, seeds, manifests, and the comparisons computed
anew from the graded items.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from evolora_core.errors import PackError
from evolora_core.language.splits import in_order
from evolora_core.statistics.comparisons import (
    compute_accuracies,
    compute_comparisons,
    facts_of,
    shared_prompts,
    splits_of_shared_items,
)
from evolora_core.statistics.inference import RESAMPLES
from evolora_core.store import frame, query

# What tells the rows of the tables of `counted` apart.
COUNTED = {"comparisons": ("split", "a", "b", "routing"), "accuracies": ("arm", "split", "family")}


@dataclass(frozen=True)
class StoredSuite:
    """One suite of a store; its numbers are of the seeds that are complete in every condition."""

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

    def check_complete(self) -> None:
        """Raise PackError if no seed is complete."""
        if self.config and not self.seeds:
            sql = "SELECT DISTINCT suite FROM complete_seeds WHERE starts_with(suite, ?) ORDER BY suite"
            name = self.suite.rpartition("-")[0]
            alike = [other for (other,) in query(self.home, sql, [f"{name}-"]).rows if other.rpartition("-")[0] == name]
            others = f"; of this name there is also {', '.join(alike)}" if alike else ""
            raise PackError(
                f"{self.suite}: no seed is complete in every condition; it lacks {self.missing_in_words}: run them by "
                f"`evolora retry {self.suite}`, or bring them by `evolora store merge`{others}"
            )

    @cached_property
    def missing(self) -> list[str]:
        """Runs that the suite declares and that were not evaluated."""
        sql = "SELECT condition, seed FROM stages WHERE suite = ? AND stage = 'evaluate'"
        done = set(query(self.home, sql, [self.suite]).rows)
        declared = [(c, s) for s in self.config["seeds"] for c in self.config["conditions"]]
        return [f"{condition} s{seed}" for condition, seed in declared if (condition, seed) not in done]

    @property
    def missing_in_words(self) -> str:
        """The same in few words: a seed of which nothing was evaluated is named alone. "" if nothing is missing."""
        runs = {seed: [f"{name} s{seed}" for name in self.config["conditions"]] for seed in self.config["seeds"]}
        absent = [seed for seed, own in runs.items() if {*own} <= {*self.missing}]
        single = [run for run in self.missing if not any(run in runs[seed] for seed in absent)]
        seeds = f"seed{'s' if len(absent) > 1 else ''} {', '.join(map(str, absent))}"
        return ", ".join([*([seeds] if absent else []), *single])

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
        """A query with named parameters; `$suite` is this one."""
        return frame(self.home, sql, {"suite": self.suite} | parameters)

    def by_condition(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows in the order in which the suite has their conditions."""
        order = {condition: place for place, condition in enumerate(self.config["conditions"])}
        return rows.sort_values("condition", key=lambda names: names.map(order), kind="stable", ignore_index=True)

    @cached_property
    def prompts_of_other_seeds(self) -> dict[str, float]:
        """Split -> the share of its prompts that another seed has too: items of small families are drawn again."""
        shares = shared_prompts(self._prompts)
        return {split: shares[split] for split in in_order(set(shares))}

    @cached_property
    def splits_of_shared_items(self) -> set[str]:
        """The splits over which seeds and items are resampled crossed."""
        return splits_of_shared_items(self._prompts)

    @cached_property
    def _prompts(self) -> pd.DataFrame:
        return self.frame(
            "SELECT DISTINCT split, seed, item_key(prompt, task_id) AS prompt FROM evaluations "
            "JOIN complete_seeds USING (suite, seed) WHERE suite = $suite"
        )

    def counted(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of the tables `comparisons` and `accuracies`, computed from the graded items. Raises StageError
        where conditions were not measured alike.

        Which comparisons are declared, and how often to resample, stands under `evaluation` in every suite.
        """
        items = self.frame(
            "SELECT condition, seed, arm, split, task_id, family, correct, item_key(prompt, task_id) AS prompt "
            "FROM evaluations "
            "JOIN complete_seeds USING (suite, seed) WHERE suite = $suite"
        )
        evaluation = self.config.get("evaluation", {})
        declared, resamples = evaluation.get("comparisons", []), evaluation.get("bootstrap", RESAMPLES)
        return {
            "comparisons": compute_comparisons(items, self.facts, declared, resamples),
            "accuracies": compute_accuracies(items, resamples),
        }


def document_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The identity document of one of `manifests`."""
    result: dict[str, Any] = row["manifest"].get("identity_document", {})
    return result


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
