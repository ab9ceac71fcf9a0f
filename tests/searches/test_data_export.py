"""The splits of a suite as a data set: what stands under `answer`."""

from pathlib import Path
from typing import Any

import datasets
import pytest
from example_suite import part, suite_id, write_stage

from evolora_core.engine.run_index import write_suite
from evolora_core.errors import ConfigError, StageError
from evolora_core.language.datasets import write_items
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.language.tasks.own import define, enter_tasks, write_definitions
from evolora_core.language.tasks.settings import TaskConfig
from evolora_core.searches.data_export import write_splits

SUITE = "own-0a1b2c3d"
TASKS: list[dict[str, Any]] = [
    {"name": "row_pattern", "verifier": {"kind": "regex"}},
    {"name": "task_pattern", "verifier": {"kind": "regex", "pattern": "[a-z]{2}"}},
    {"name": "plain", "verifier": {"kind": "exact"}},
    {"name": "shape", "verifier": {"kind": "json", "schema": {"type": "object"}}, "answer": None},
]
TARGETS = {"row_pattern": r"\d{3}", "task_pattern": "ab", "plain": "forty", "shape": None}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the splits of a suite that has a task of each kind, as the stage `datasets` leaves them."""
    tasks = []
    for settings in TASKS:
        name = settings["name"]
        column = "" if TARGETS[name] is None else f",{TARGETS[name]}"
        rows = "".join(f"{name} {number}{column}\n" for number in range(2))
        (tmp_path / f"{name}.csv").write_text(f"prompt{',answer' if column else ''}\n{rows}")
        tasks.append(TaskConfig.model_validate(settings | {"data": str(tmp_path / f"{name}.csv")}))
    enter_tasks(tasks)
    place = tmp_path / "home"
    folder = place / write_stage(place, part(SUITE, "shared", 0, "datasets"), {}).folder
    items = [Item(f"{name} 0", target, name, "all", name) for name, target in TARGETS.items()]
    write_items(folder / "train.jsonl", [*items, Item("Add 1 and 2.", 3, "math", "short", "sum")])
    write_items(folder / "holdout_id.jsonl", [Item(f"{name} 1", "x", name, "all", name) for name in ("plain",)])
    write_definitions(folder, [define(task) for task in tasks])
    write_suite(place, suite_id(SUITE), {"seeds": [0]})
    return place


def test_an_answer_is_one_that_its_verifier_accepts_or_none(home: Path, tmp_path: Path) -> None:
    assert write_splits(home, SUITE, None, tmp_path / "data") == {"train": 5, "holdout_id": 1}
    found = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    rows = {row["family"]: row for row in found["train"]}
    assert {family: row["answer"] for family, row in rows.items()} == {
        "row_pattern": None, "task_pattern": "ab", "plain": "forty", "shape": None, "math": "3",
    }  # fmt: skip
    assert rows["math"]["task_id"] == "sum"  # as the store calls it
    assert rows["row_pattern"]["target"] == r'"\\d{3}"'  # its pattern is still there to grade by
    for family, row in rows.items():
        if row["answer"] is not None:
            target = 3 if family == "math" else TARGETS[family]
            assert grade(Item(row["prompt"], target, family, "all", ""), row["answer"]).correct


def test_the_domains_of_a_merge_suite_make_its_splits(home: Path, tmp_path: Path) -> None:
    folder = home / write_stage(home, part("merged-0a1b2c3d", "shared", 0, "datasets"), {}).folder
    for split in ("train", "test"):
        (folder / split).mkdir()
        for domain in ("sums", "rest"):
            write_items(folder / split / f"{domain}.jsonl", [Item(f"{split} {domain}", 3, "math", "short", "sum")])
    (folder / "search").mkdir()
    write_items(folder / "search" / "sums.jsonl", [])  # `datasets` cannot read a file without rows
    write_suite(home, suite_id("merged-0a1b2c3d"), {"seeds": [0], "search": "merging"})
    assert write_splits(home, "merged", None, tmp_path / "data") == {"train": 2, "test": 2}
    found = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    assert [(row["prompt"], row["answer"]) for row in found["test"]] == [("test rest", "3"), ("test sums", "3")]
    write_suite(home, suite_id("programs-0a1b2c3d"), {"seeds": [0], "search": "attention"})
    with pytest.raises(ConfigError, match="the search 'attention' has no prompts and answers"):
        write_splits(home, "programs", None, tmp_path / "none")


def test_a_split_that_was_changed_is_not_exported(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / write_stage(home, part(SUITE, "shared", 0, "datasets"), {"splits": [{"n": 1}]}).folder
    write_suite(home, suite_id(SUITE), {"seeds": [0]})
    (folder / "splits.parquet").write_bytes(b"")
    with pytest.raises(StageError, match="splits.parquet was changed"):
        write_splits(home, SUITE, None, tmp_path / "data")


def test_a_seed_without_splits_is_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the splits of seed 7 were not made; run the suite, or name another seed"):
        write_splits(home, SUITE, 7, tmp_path / "data")
