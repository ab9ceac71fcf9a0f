"""Transfer in a pack: gains on unseen families beside those on learned ones."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_suite import part, write_stage, write_suite

from evolora_core.report import StoredSuite
from evolora_core.searches.adapters.pack.transfer import BARE, STILL, UNPROVEN, transfer_frame, transfer_table
from evolora_core.store import frame, rebuild, record
from evolora_core.store.connection import opened, store_path

SUITE = "example-0a1b2c3d"


def test_gains_are_over_the_host_of_the_same_seed_and_the_ratio_is_of_their_means(packed: Path) -> None:
    found: Any = transfer_frame(StoredSuite(packed, SUITE)).set_index("arm")
    assert list(found.index) == ["single:single", "ecology:single", "sft:single"]  # the headline goes by family
    items = frame(packed, "SELECT * FROM evaluations", [])
    for arm, row in found.iterrows():
        gains = {
            split: np.mean([
                items.loc[(items["arm"] == arm) & (items["seed"] == seed) & (items["split"] == split), "correct"].mean()
                - items.loc[
                    (items["arm"] == "frozen") & (items["seed"] == seed) & (items["split"] == split), "correct"
                ].mean()
                for seed in (0, 1, 2)
            ])
            for split in ("holdout_id", "holdout_ood")
        }  # fmt: skip
        assert row["learned"] == pytest.approx(gains["holdout_id"])
        assert row["unseen"] == pytest.approx(gains["holdout_ood"])
        assert row["gap"] == pytest.approx(row["learned"] - row["unseen"])
        assert row["gap_lo"] < row["gap"] < row["gap_hi"] and row["unseen_lo"] < row["unseen"] < row["unseen_hi"]
        if row["note"]:
            assert (
                row["note"] == UNPROVEN
                and row["learned_lo"] <= 0
                and np.isnan(row["ratio"])
                and np.isnan(row["ratio_lo"])
            )
        else:
            assert row["learned_lo"] > 0 and row["ratio"] == pytest.approx(row["unseen"] / row["learned"])
            assert row["ratio_lo"] < row["ratio"] < row["ratio_hi"]
    assert found.loc["sft:single", "note"] == "" and found.loc["sft:single", "ratio"] < 0.5


def test_a_gain_that_may_be_none_has_no_ratio_and_says_so(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=24)
    rebuild(tmp_path)
    found: Any = transfer_frame(StoredSuite(tmp_path, SUITE)).set_index("arm")
    assert found.loc["single:single", "learned_lo"] <= 0 and found.loc["single:single", "note"] == UNPROVEN
    shown = {row[0]: row for row in transfer_table(SUITE, found.reset_index()).cells()}
    assert shown["single"][5:] == ["–", UNPROVEN] and shown["sft"][5] != "–"


def test_items_that_seeds_share_count_once(home: Path) -> None:
    widths = []
    for name in ("task_id", "split_part(task_id, '-', 3)"):
        with opened(store_path(home)) as connection:
            connection.execute(f"UPDATE data.evaluations SET prompt = {name}")
        found: Any = transfer_frame(StoredSuite(home, SUITE)).set_index("arm").loc["sft:single"]
        widths.append({own: found[f"{own}_hi"] - found[f"{own}_lo"] for own in ("learned", "unseen", "gap", "ratio")})
    apart, shared = widths
    assert all(shared[own] > 1.05 * apart[own] for own in apart), widths


def test_an_arm_that_is_the_host_is_called_so(home: Path) -> None:
    for seed in (0, 1, 2):
        host = frame(home, f"SELECT * FROM evaluations WHERE condition = 'frozen' AND seed = {seed}", [])
        rows = [host.assign(arm=arm, organelle=-1) for arm in ("sft", "sft:single")]
        kept = [column for column in host if column not in ("suite", "run_id", "condition", "seed", "stage")]
        tables = {"evaluations": [row for own in rows for row in own[kept].to_dict("records")]}
        record(home, write_stage(home, part(SUITE, "sft", seed, "evaluate"), tables))
    row = transfer_frame(StoredSuite(home, SUITE)).set_index("arm").loc["sft:single"]
    assert row["note"] == BARE and row["learned"] == row["unseen"] == row["gap"] == 0 and np.isnan(row["ratio"])


def test_a_gain_of_nothing_anywhere_has_no_interval(home: Path) -> None:
    """A bootstrap of equal answers has no width."""
    for arm, seed in product(("single", "sft"), (0, 1, 2)):
        sql = f"SELECT * FROM evaluations WHERE condition = 'frozen' AND seed = {seed} AND split = 'holdout_ood'"
        unseen = frame(home, sql, []).assign(arm=f"{arm}:single", organelle=0)
        sql = f"SELECT * FROM evaluations WHERE condition = '{arm}' AND seed = {seed}"
        own = frame(home, f"{sql} AND NOT (arm = '{arm}:single' AND split = 'holdout_ood')", [])
        kept = [column for column in unseen if column not in ("suite", "run_id", "condition", "seed", "stage")]
        tables = {"evaluations": [row for part_ in (own, unseen) for row in part_[kept].to_dict("records")]}
        record(home, write_stage(home, part(SUITE, arm, seed, "evaluate"), tables))
    rows = transfer_frame(StoredSuite(home, SUITE))
    row = rows.set_index("arm").loc["sft:single"]
    assert row["note"] == STILL and row["unseen"] == 0 and row["learned_lo"] > 0
    assert np.isnan(row["unseen_lo"]) and np.isnan(row["ratio_hi"])
    (shown,) = [cells for cells in transfer_table(SUITE, rows).cells() if cells[0] == "sft"]
    assert shown[3] == "+0.0" and shown[5] == "0.00"
    unproven = rows.set_index("arm").loc["single:single"]
    assert unproven["note"] == f"{UNPROVEN}; {STILL}" and np.isnan(unproven["unseen_lo"])


def test_without_the_host_there_are_no_gains(home: Path) -> None:
    with opened(store_path(home)) as connection:
        connection.execute("DELETE FROM data.evaluations WHERE condition = 'frozen'")
    assert transfer_frame(StoredSuite(home, SUITE)).empty
