"""The worst quarter of runs in a pack: of whom it is, and that a pack of few runs has none."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from example_suite import CONDITIONS, write_suite
from unplotted import TABLES_ALONE

from evolora_core.report import StoredSuite, build, verify
from evolora_core.searches.adapters.pack.worst import worst_frame, worst_pairs_frame
from evolora_core.store import query, rebuild
from evolora_core.store.connection import opened, store_path

SUITE = "example-0a1b2c3d"


@pytest.fixture(scope="module")
def seventeen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with seventeen runs of each condition; it is never changed."""
    home = tmp_path_factory.mktemp("seventeen")
    write_suite(home, SUITE, seeds=tuple(range(17)), items=24)
    rebuild(home)
    return home


def forget(home: Path, conditions: Sequence[str], seeds: Sequence[int]) -> None:
    """Take the answers of runs out of the store."""
    with opened(store_path(home)) as connection:
        sql = "DELETE FROM data.evaluations WHERE list_contains(?, condition) AND list_contains(?, seed)"
        connection.execute(sql, [list(conditions), list(seeds)])


def test_worst_runs_are_told_from_sixteen_on(seventeen: Path, tmp_path: Path) -> None:
    shutil.copytree(seventeen, tmp_path, dirs_exist_ok=True)
    forget(tmp_path, CONDITIONS, [16])
    found: Any = worst_frame(StoredSuite(tmp_path, SUITE))
    alone = found.set_index("a")
    assert list(alone.index) == list(CONDITIONS) and set(alone["runs"]) == {16}
    for condition, row in alone.iterrows():
        runs = query(
            tmp_path,
            "SELECT avg(correct::INT) FROM evaluations WHERE split = 'holdout_id' AND arm = ? GROUP BY seed ORDER BY 1",
            [condition],
        ).rows
        lowest = [accuracy for (accuracy,) in runs]
        assert row["worst"] == pytest.approx(np.mean(lowest[:4])) and row["lowest"] == pytest.approx(lowest[0])
        assert row["mean"] == pytest.approx(np.mean(lowest))
    compared = worst_pairs_frame(StoredSuite(tmp_path, SUITE))
    for _, row in compared.iterrows():
        both = alone.loc[row["a"]], alone.loc[row["b"]]
        assert row["worst"] == pytest.approx(both[0]["worst"] - both[1]["worst"]) and row["lo"] < row["hi"]
    assert len(compared)
    forget(tmp_path, CONDITIONS, [15])
    assert worst_frame(StoredSuite(tmp_path, SUITE)).empty


def test_a_pack_of_many_runs_has_their_worst_quarter(seventeen: Path, tmp_path: Path) -> None:
    pack = build(seventeen, SUITE, tmp_path / "example", TABLES_ALONE)
    assert "The worst quarter of runs" in (pack / "README.md").read_text()
    assert verify(seventeen, pack, TABLES_ALONE) == []


def test_a_pair_that_names_the_headline_s_router_is_among_them(seventeen: Path, tmp_path: Path) -> None:
    shutil.copytree(seventeen, tmp_path, dirs_exist_ok=True)
    before = worst_pairs_frame(StoredSuite(tmp_path, SUITE))
    ((text,),) = query(tmp_path, "SELECT config FROM suites").rows
    config = json.loads(text)
    declared = config["evaluation"]["comparisons"]
    assert [pair["routing"] for pair in declared[:2]] == [None, None] and len(before) == 2
    declared[0]["routing"], declared[1]["routing"] = "family", "single"
    with opened(store_path(tmp_path)) as connection:
        connection.execute("UPDATE data.suites SET config = ?", [json.dumps(config)])
    pd.testing.assert_frame_equal(worst_pairs_frame(StoredSuite(tmp_path, SUITE)), before.head(1))


def test_a_pair_with_few_seeds_in_common_is_not_compared(seventeen: Path, tmp_path: Path) -> None:
    shutil.copytree(seventeen, tmp_path, dirs_exist_ok=True)
    suite = StoredSuite(tmp_path, SUITE)
    declared = worst_pairs_frame(suite)
    a, b = declared.iloc[0]["a"], declared.iloc[0]["b"]
    forget(tmp_path, [a], [0])
    forget(tmp_path, [b], [1])
    found = worst_pairs_frame(suite)
    assert {a, b} <= set(worst_frame(suite)["a"]) and (a, b) not in set(zip(found["a"], found["b"], strict=True))
    forget(tmp_path, [a], [1])  # 15 are left of one condition, and all of the others
    assert set(worst_frame(suite)["a"]) == {*CONDITIONS} - {a}


def test_who_could_not_be_run_counts_as_the_bare_host(seventeen: Path, tmp_path: Path) -> None:
    """Otherwise the seeds in which its rival, whose budget it has, was unlucky would be taken out for both."""
    shutil.copytree(seventeen, tmp_path, dirs_exist_ok=True)
    forget(tmp_path, ["single"], [3])
    judged = "stage = 'evaluate' AND condition = 'single' AND seed = 3"
    sql = f"UPDATE data.stages SET manifest = json_merge_patch(manifest, ?) WHERE {judged}"
    with opened(store_path(tmp_path)) as connection:
        said = '{"summary": {"not_run": "the budget does not pay for a generation"}}'
        connection.execute(sql, [said])
    host, single = (
        query(tmp_path, f"SELECT avg(correct::INT) FROM evaluations WHERE split = 'holdout_id' AND {which}").rows[0][0]
        for which in ("arm = 'frozen' AND seed = 3", "arm = 'single'")
    )
    row = worst_frame(StoredSuite(tmp_path, SUITE)).set_index("a").loc["single"]
    assert row["runs"] == 17 and row["mean"] == pytest.approx((16 * single + host) / 17)
    pairs = worst_pairs_frame(StoredSuite(tmp_path, SUITE))
    assert set(pairs["runs"]) == {17}
    forget(tmp_path, ["single"], range(17))  # now it was run with no seed at all
    assert worst_frame(StoredSuite(tmp_path, SUITE)).set_index("a").index.tolist() == list(CONDITIONS)[:1] + [
        own for own in CONDITIONS[1:] if own != "single"
    ]
