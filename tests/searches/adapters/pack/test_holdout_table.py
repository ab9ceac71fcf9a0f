"""Holdout files in a pack: their table, their families and routers, and that nothing else changes by them."""

from pathlib import Path

import pandas as pd
import pytest
from example_suite import CONDITIONS, write_suite
from unplotted import TABLES_ALONE

from evolora_core.report import build, verify
from evolora_core.searches.adapters.pack.holdout_files import holdout_table
from evolora_core.store import rebuild

SUITE = "example-0a1b2c3d"
FILES = {"a_published_one": ("math", "regex.synthesis"), "other": ("word.count",)}


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack of the example suite, with two files beside its holdouts."""
    home = tmp_path_factory.mktemp("filed")
    write_suite(home, SUITE, items=96, files=FILES)
    rebuild(home)
    return build(home, SUITE, tmp_path_factory.mktemp("packs") / "example", TABLES_ALONE)


def test_files_have_a_table_and_stand_below_the_holdouts(pack: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(pack / "holdouts.csv")
    assert list(zip(rows["split"], rows["condition"], strict=True)) == [(f, c) for f in FILES for c in CONDITIONS]
    assert set(rows["n"]) == {3 * 96} and set(rows["left_out"]) == {0 + 1 + 2}
    assert ((rows["lo"] < rows["acc"]) & (rows["acc"] < rows["hi"])).all()
    order = list(dict.fromkeys(pd.read_csv(pack / "by_family.csv")["split"]))
    assert order == ["holdout_id", "holdout_ood", "retention", *FILES]
    routed = pd.read_csv(pack / "by_routing.csv")
    assert set(routed.loc[routed["split"] == "other", "arm"]) == {*CONDITIONS, *(f"{c}:single" for c in CONDITIONS[1:])}
    assert set(routed.groupby("arm").first()["split"]) == {"holdout_id"}  # the column `bare` is of the first
    text = (pack / "README.md").read_text()
    assert "| a published one     | math " in text and " other % |" in text
    assert verify(tmp_path, pack, TABLES_ALONE) == []


def test_a_condition_that_was_not_run_with_every_seed_does_not_tell_how_many_items_there_are(pack: Path) -> None:
    rows = pd.read_csv(pack / "holdouts.csv")
    rows.loc[rows["condition"] == CONDITIONS[0], "n"] = 2 * 96
    assert {cells[1] for cells in holdout_table(SUITE, rows).cells()} == {str(3 * 96)}


def test_files_change_nothing_but_the_cost_of_evaluating(pack: Path, built: Path) -> None:
    for name in ("paper_table.csv", "comparisons.csv", "prices.csv", "origins.csv"):
        mine, other = (pd.read_csv(folder / name) for folder in (pack, built))
        changed = {str(column) for column in mine if not mine[column].equals(other[column])}
        assert changed == ({"evaluation_flops"} if name == "paper_table.csv" else set()), name
    assert not (built / "holdouts.csv").exists()
