"""The shipped holdout file of patterns that no draw has: it is what its script writes, and its labels hold."""

import json
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolora_core.language.families.canonical import canonical
from evolora_core.language.families.registry import get, gold, grade
from evolora_core.language.holdouts import read_holdout

FOLDER = Path(__file__).parents[2] / "configs" / "holdouts"
FILE = FOLDER / "regex_unseen.jsonl"
KINDS = ("operator", "composition", "semantic_coupling", "surface_form")
FAMILIES = ("recognition", "synthesis", "explanation", "debugging", "refactoring", "mutation_effect")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def test_it_is_what_its_script_writes(rows: list[dict[str, Any]]) -> None:
    made = runpy.run_path(str(FOLDER / "regex_unseen.py"))["rows"]()
    assert list(made) == rows


def test_every_capability_is_asked_in_every_kind_equally_often(rows: list[dict[str, Any]]) -> None:
    counts = Counter((row["holdout_type"], row["family"]) for row in rows)
    assert counts == {(kind, f"regex.{name}"): 20 for kind in KINDS for name in FAMILIES}
    assert len({canonical(row["prompt"]) for row in rows}) == len(rows)


def test_labels_hold_by_the_standard_engine(rows: list[dict[str, Any]]) -> None:
    """The strings of the rows were labelled without a regex engine."""
    for row in rows:
        target, matches = row["target"], re.compile(row["target"]["pattern"]).fullmatch
        for case in target.get("test_strings", []):
            assert (matches(case["string"]) is not None) == case["should_match"], row
        if "test_string" in target:
            assert (matches(target["test_string"]) is not None) == target["expected"], row
        if "strings" in target:
            loose = re.compile(target["mutated_pattern"]).fullmatch
            only_now = [text for text in target["strings"] if loose(text) and not matches(text)]
            assert only_now == target["required_keywords"], row
        if "original_pattern" in target:
            same = re.compile(target["original_pattern"]).fullmatch
            assert all(bool(same(case["string"])) == case["should_match"] for case in target["test_strings"]), row
        if "terms" in target:  # the words say the same pattern
            words = get("regex.synthesis").solve(f"Write a regex for: {target['reference_answer']}")
            rng = np.random.default_rng(0)
            texts = ["".join(rng.choice(list(row["prompt"]), 6)) for _ in range(50)]
            assert all(bool(re.fullmatch(words, text)) == bool(matches(text)) for text in texts), row


def test_gold_is_right_and_another_items_gold_is_not() -> None:
    items = read_holdout(FILE)
    assert all(grade(item, gold(item)).correct for item in items)
    yes_or_no = [item for item in items if item.family == "regex.recognition"]
    assert 0.3 < sum(item.target["expected"] for item in yes_or_no) / len(yes_or_no) < 0.7
    others = [item for item in items if item.family != "regex.recognition"]
    shifted = [grade(item, gold(other)).correct for item, other in zip(others, others[1:], strict=False)]
    assert sum(shifted) <= 2


def test_no_draw_of_a_family_has_such_a_prompt(rows: list[dict[str, Any]]) -> None:
    quantifier = re.compile(r"(?:\\d|\])(?:\*|\{\d,\})")
    for row in rows:
        pattern, kind = row["target"]["pattern"], row["holdout_type"]
        assert (kind == "operator") == (quantifier.search(pattern) is not None), row
        assert (kind == "composition") <= (row["depth"] == "long")
    openings = {
        name: canonical(get(f"regex.{name}").make(np.random.default_rng(1), "short").prompt)[:6] for name in FAMILIES
    }
    reworded = [row for row in rows if row["holdout_type"] == "surface_form"]
    same = [row for row in reworded if canonical(row["prompt"])[:6] == openings[row["family"].removeprefix("regex.")]]
    assert not same
