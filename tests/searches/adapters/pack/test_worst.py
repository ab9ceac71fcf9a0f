"""The worst quarter of runs in a pack: of whom it is, and that a pack of few runs has none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_suite import CONDITIONS, write_suite

from evolora_core.report import StoredSuite, build, verify
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.searches.adapters.pack.worst import worst_frame
from evolora_core.store import query, rebuild
from evolora_core.store.connection import opened, store_path

SUITE = "example-0a1b2c3d"


def stored(home: Path, seeds: int) -> StoredSuite:
    write_suite(home, SUITE, seeds=tuple(range(seeds)), items=24)
    rebuild(home)
    return StoredSuite(home, SUITE)


def test_worst_runs_are_told_from_sixteen_on(tmp_path: Path) -> None:
    assert worst_frame(stored(tmp_path / "few", 15)).empty
    found: Any = worst_frame(stored(tmp_path, 16))
    alone = found[found["b"] == ""].set_index("a")
    assert list(alone.index) == list(CONDITIONS) and set(alone["runs"]) == {16}
    for condition, row in alone.iterrows():
        runs = query(
            tmp_path,
            "SELECT avg(correct::INT) FROM evaluations WHERE split = 'holdout_id' AND arm = ? GROUP BY seed ORDER BY 1",
            [condition],
        ).rows
        lowest = [accuracy for (accuracy,) in runs]
        assert row["worst"] == pytest.approx(np.mean(lowest[:4])) and row["lowest"] == pytest.approx(lowest[0])
        assert row["mean"] == pytest.approx(np.mean(lowest)) and row["lo"] <= row["worst"] <= row["hi"]
    for _, row in found[found["b"] != ""].iterrows():
        both = alone.loc[row["a"]], alone.loc[row["b"]]
        assert row["worst"] == pytest.approx(both[0]["worst"] - both[1]["worst"])
    assert (found["b"] != "").any()
    pack = build(tmp_path, SUITE, tmp_path / "packs" / "example", SECTIONS)
    assert "The worst quarter of runs" in (pack / "README.md").read_text()
    assert verify(tmp_path, pack, SECTIONS) == []


def test_a_pair_with_few_seeds_in_common_is_not_compared(tmp_path: Path) -> None:
    suite = stored(tmp_path, 17)
    declared = worst_frame(suite)[lambda rows: rows["b"] != ""]
    a, b = declared.iloc[0]["a"], declared.iloc[0]["b"]
    with opened(store_path(tmp_path)) as connection:
        connection.execute("DELETE FROM data.evaluations WHERE (condition, seed) IN ((?, 0), (?, 1))", [a, b])
    found = worst_frame(suite)
    assert {a, b} <= set(found["a"]) and (a, b) not in set(zip(found["a"], found["b"], strict=True))
