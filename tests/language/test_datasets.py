"""Splits: disjoint, balanced, repeatable, from the right side of the reserved tenth."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolora_core.errors import ConfigError, DataError
from evolora_core.language.datasets import build_splits, check_disjoint, leak_counts, read_items, write_items
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical, reserved
from evolora_core.language.splits import SPLITS


@dataclass(frozen=True)
class Settings:
    train_families: list[str] = field(default_factory=lambda: ["math", "json_repair"])
    ood_families: list[str] = field(default_factory=lambda: ["logic.bool", "regex"])
    retention_families: list[str] = field(default_factory=lambda: ["string.sort"])
    depths: list[str] = field(default_factory=lambda: ["short", "long"])
    train_items: int = 41
    selection_items: int = 10
    reselection_items: int = 6
    holdout_items: int = 12


@settings(max_examples=8)
@given(st.integers(0, 2**31))
def test_splits_are_disjoint_balanced_and_of_the_right_size(seed: int) -> None:
    splits = build_splits(Settings(), seed)
    assert tuple(splits) == SPLITS
    assert [len(splits[name]) for name in SPLITS] == [41, 10, 12, 12, 12, 6]
    assert all(row["shared"] == 0 for row in check_disjoint(splits))
    for name, items in splits.items():
        prompts = [canonical(item.prompt) for item in items]
        assert len(set(prompts)) == len(prompts)
        assert {reserved(prompt) for prompt in prompts} == {name != "train"}
        cells = Counter((item.family, item.depth) for item in items)
        assert max(cells.values()) - min(cells.values()) <= 1
    learned, foreign = {"math", "json_repair"}, {"logic.bool", "regex.synthesis"}
    assert {name: {item.family for item in items} for name, items in splits.items()} == {
        "train": learned,
        "selection": learned,
        "holdout_id": learned,
        "holdout_ood": foreign,
        "retention": {"string.sort"},
        "reselection": foreign,
    }


def test_the_seed_decides() -> None:
    assert build_splits(Settings(), 3) == build_splits(Settings(), 3)
    assert build_splits(Settings(), 3)["train"] != build_splits(Settings(), 4)["train"]


def test_a_cell_does_not_depend_on_the_others() -> None:
    alone = build_splits(replace(Settings(), train_families=["math"], train_items=20), 0)["train"]
    both = build_splits(replace(Settings(), train_items=40), 0)["train"]
    assert [item for item in both if item.family == "math"] == alone


@pytest.mark.parametrize(
    ("family", "said"), [("math", "'math' is trained on too"), ("logic.bool", "is among ood_families too")]
)
def test_no_family_is_in_two_lists(family: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"data\.retention_families: .*{said}"):
        build_splits(replace(Settings(), retention_families=[family]), 0)


def test_a_learned_family_among_the_foreign_ones_is_a_leak_whatever_its_prompts() -> None:
    splits = build_splits(Settings(), 0)
    splits["holdout_ood"].append(replace(splits["train"][0], prompt="a prompt of its own"))
    with pytest.raises(DataError, match="is in train and in holdout_ood"):
        check_disjoint(splits)


def test_a_family_cannot_be_trained_on_and_held_out() -> None:
    with pytest.raises(ConfigError, match=r"data\.ood_families: 'math' is trained on too"):
        build_splits(replace(Settings(), ood_families=["math"]), 0)
    with pytest.raises(ConfigError, match=r"data\.train_families: unknown family 'maths': did you mean 'math'\?"):
        build_splits(replace(Settings(), train_families=["maths"]), 0)
    with pytest.raises(ConfigError, match="data.depths: 'math' has none of them"):
        build_splits(replace(Settings(), depths=["tiny"]), 0)


def test_a_cell_that_is_too_small_is_named() -> None:
    wanted = replace(Settings(), train_families=["math"], depths=["short"], train_items=1, selection_items=3000)
    with pytest.raises(DataError, match=r"selection: cell math:short has only \d+ of 3000 items"):
        build_splits(wanted, 0)


def test_leaks_are_found() -> None:
    splits = build_splits(Settings(), 0)
    splits["retention"].append(replace(splits["train"][0], prompt="  " + splits["train"][0].prompt.upper()))
    row = next(row for row in leak_counts(splits) if row["shared"])
    assert row == {"split_a": "train", "split_b": "retention", "shared": 1}
    with pytest.raises(DataError, match="splits train and retention share 1 prompts"):
        check_disjoint(splits)


def test_items_survive_writing_and_reading(tmp_path: Path) -> None:
    items = build_splits(Settings(), 0)["holdout_ood"]
    write_items(tmp_path / "items.jsonl", items)
    assert read_items(tmp_path / "items.jsonl") == items
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"bad\.jsonl:1: not an item"):
        read_items(tmp_path / "bad.jsonl")


def test_items_may_hold_what_python_takes_for_ends_of_lines(tmp_path: Path) -> None:
    """`write_items` leaves such characters as they are; JSON knows one end of a line."""
    items = [Item(f"a{end}b", {"expected": f"c{end}d"}, "math", "short", "t") for end in "\u2028\u2029\x85\r\n\x0b\x1c"]
    write_items(tmp_path / "items.jsonl", items)
    assert read_items(tmp_path / "items.jsonl") == items
    text = (tmp_path / "items.jsonl").read_text(encoding="utf-8")
    (tmp_path / "windows.jsonl").write_bytes(text.replace("\n", "\r\n").encode())
    assert read_items(tmp_path / "windows.jsonl") == items
    (tmp_path / "none.jsonl").write_text("")
    assert read_items(tmp_path / "none.jsonl") == []
    (tmp_path / "gap.jsonl").write_text(text.replace("\n", "\n\n", 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"gap\.jsonl:2: not an item"):
        read_items(tmp_path / "gap.jsonl")
