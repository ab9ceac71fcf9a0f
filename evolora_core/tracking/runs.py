"""Runs as a tracker of experiments takes them: settings, a row of numbers for each generation, scores."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from evolora_core.errors import StoreError
from evolora_core.store import query

OWN = ("suite", "run_id", "condition", "seed", "generation")  # of a row: which one it is, and no measurement

_RUNS = """
    SELECT DISTINCT run_id, condition, seed FROM stages AS t JOIN suites AS s USING (suite)
    WHERE suite = ? AND list_contains(s.conditions, t.condition) ORDER BY ALL
"""
_SPENT = """
    SELECT run_id, sum(flops) AS flops, sum(seconds) AS seconds FROM compute
    WHERE suite = ? AND purpose <> 'evaluation' GROUP BY ALL
"""


@dataclass(frozen=True)
class Tracked:
    """What the store knows of one run; of one that still goes on, that is what its finished stages left.

    settings     of its suite, and its own condition and seed
    generations  numbers of each generation by name, in order; what is unknown is left out
    scores       SPLIT/accuracy (a share), SPLIT/lo and SPLIT/hi (95 % Wilson interval) and SPLIT/items of every split
                 that it was judged on; cost/flops and cost/seconds of all that it did but the judging
    """

    suite: str
    run_id: str
    settings: dict[str, Any]
    generations: list[tuple[int, dict[str, float]]]
    scores: dict[str, float]


def tracked_runs(home: Path, suite: str, view: str) -> list[Tracked]:
    """Every run of a suite id in the store. `view` has a row for each run and generation, with the columns of `OWN`;
    "" where the search has none. Raises StoreError where the store has no run of the suite.
    """
    stored = query(home, "SELECT config FROM suites WHERE suite = ?", [suite]).rows
    found = query(home, _RUNS, [suite]).rows
    if not stored or not found:
        raise StoreError(f"{suite}: the store knows no run of it yet; `evolora status {suite}` lists its stages")
    settings = json.loads(stored[0][0])
    generations: dict[str, list[tuple[int, dict[str, float]]]] = defaultdict(list)
    if view:
        for row in query(home, f"SELECT * FROM {view} WHERE suite = ? ORDER BY run_id, generation", [suite]).records():
            measured = {name: value for name, value in row.items() if name not in OWN}
            generations[row["run_id"]].append((row["generation"], dict(_numbers(measured))))
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for row in query(home, "SELECT * FROM split_accuracy WHERE suite = ? ORDER BY split", [suite]).records():
        told = {"accuracy": row["acc"], "lo": row["lo"], "hi": row["hi"], "items": row["n"]}
        scores[row["run_id"]] |= {f"{row['split']}/{name}": number for name, number in _numbers(told)}
    for row in query(home, _SPENT, [suite]).records():
        told = {"flops": row["flops"], "seconds": row["seconds"]}
        scores[row["run_id"]] |= {f"cost/{name}": number for name, number in _numbers(told)}
    return [
        Tracked(suite, run, settings | {"condition": condition, "seed": seed}, generations[run], scores[run])
        for run, condition, seed in found
    ]


def _numbers(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The values that are numbers, as Python's own."""
    for name, value in row.items():
        if isinstance(value, Decimal):  # a sum of integers
            value = int(value) if value == int(value) else float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name, value
