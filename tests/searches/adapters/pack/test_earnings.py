"""Earnings of organelles in a pack: shown where prices are what a suite varies, and equal to what was posted."""

import json
from pathlib import Path
from typing import Any

import pytest
from example_suite import write_suite

from evolora_core.report import StoredSuite
from evolora_core.searches.adapters.pack.earnings import earning_lines
from evolora_core.store import query, rebuild
from evolora_core.store.connection import opened, store_path

SUITE = "example-0a1b2c3d"


def with_economy(home: Path, economy: dict[str, Any]) -> StoredSuite:
    """The example suite, with an arm of other prices in its configuration."""
    with opened(store_path(home)) as connection:
        ((text,),) = connection.execute("SELECT config FROM data.suites").fetchall()
        config = json.loads(text)
        config["arms"] = {"binding": {"like": "ecology", "changes": {"economy": economy}}}
        connection.execute("UPDATE data.suites SET config = ?", [json.dumps(config)])
    return StoredSuite(home, SUITE)


def test_earnings_are_shown_where_prices_vary_and_add_up(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=24)
    rebuild(tmp_path)
    assert earning_lines(with_economy(tmp_path, {"ticket": 2.0, "pool": None, "cull": "poorest"})).empty
    found: Any = earning_lines(with_economy(tmp_path, {"pool": 100.0}))
    assert set(found["seed"]) == {0}
    for (condition, organelle, generation), own in found.groupby(["condition", "organelle", "generation"]):
        ((net,),) = query(
            tmp_path,
            "SELECT sum(amount) / 1e6 FROM ledger WHERE condition = ? AND seed = 0 AND account = ? AND generation = ? "
            "AND entry IN ('reward', 'answer', 'update')",
            [condition, str(organelle), int(generation)],
        ).rows
        assert own["earned"].item() == pytest.approx(net)
