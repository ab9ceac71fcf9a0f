"""A look at tasks before a run shows nothing that the run is judged by."""

from pathlib import Path
from typing import Any

import pytest

from evolora_core.language.datasets import build_splits
from evolora_core.language.families.base import DEPTHS
from evolora_core.language.hosts.host import load_host
from evolora_core.language.splits import HOLDOUTS
from evolora_core.language.tasks.pools import read_pools
from evolora_core.searches.adapters.arms import foresight
from evolora_core.searches.adapters.arms.foresight import Foresight, foresee
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "configs" / "suites" / "own-tasks.yaml"
UNTRAINED = ("conditions=[frozen]", "evaluation.comparisons=[]", "data.holdout_items=64")


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the shipped suite names its files from there


def look(*changes: str) -> tuple[SuiteConfig, dict[str, Foresight]]:
    suite = load_suite(SHIPPED, [*UNTRAINED, *changes])
    found, _ = foresee(suite, load_host("nano"), lambda *_: None)
    return suite, {own.task: own for own in found}


def shown(own: Foresight) -> set[str]:
    """The prompts whose answers are shown."""
    return {outcome.item.prompt for outcome in (*own.right, *own.wrong)}


def prompts(suite: SuiteConfig, seed: int, *splits: str) -> set[str]:
    pools = read_pools(suite.own_families)
    built: dict[str, Any] = build_splits(suite.data, seed, pools)
    return {item.prompt for split in splits for item in built[split]}


def test_answers_are_to_items_for_training_or_of_a_seed_that_is_never_reported() -> None:
    suite, found = look()
    unreported = suite.tuning.seeds[0]
    answers = [line.rpartition(",")[2] for line in Path("configs/tasks/rounded.csv").read_text().splitlines()[1:]]
    most = max(map(answers.count, answers))
    usual = found["rounded"].usual
    assert usual is not None and answers.count(usual[0]) == most and usual[1] == most / len(answers)
    assert shown(found["rounded"]) and shown(found["rounded"]) <= prompts(suite, unreported, "train")
    assert shown(found["string.rotate"]) and shown(found["string.rotate"]) <= prompts(suite, unreported, "holdout_ood")
    for seed in suite.seeds:
        assert not prompts(suite, seed, *HOLDOUTS) & (shown(found["rounded"]) | shown(found["string.rotate"]))


def test_rows_that_are_held_out_alone_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    """All seeds draw from the same rows of a file."""
    _, found = look("data.train_families=[string.sort]", "data.ood_families=[rounded, string.rotate]")
    assert found["rounded"].asked > 0 and not shown(found["rounded"])
    assert "rounded: the suite asks for it in holdouts alone, so no answers to its rows are shown" in caplog.text


def test_items_of_every_depth_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "ASKED", 12)
    monkeypatch.setattr(foresight, "EXAMPLES", 12)
    _, found = look("data.depths=[short, medium, long]")
    own = found["string.rotate"]
    depths = [outcome.item.depth for outcome in (*own.right, *own.wrong)]
    assert own.asked == len(depths) == 12 and min(map(depths.count, DEPTHS)) >= 3


def test_right_answers_that_are_too_long_to_be_given_are_named(caplog: pytest.LogCaptureFixture) -> None:
    _, found = look("decoding.max_new_tokens=3")
    longest, cap = found["string.rotate"].answer, found["string.rotate"].cap
    assert longest is not None and longest > cap == 3
    assert f"string.rotate: its longest right answer has {longest} tokens, and answers end after 3" in caplog.text
    caplog.clear()
    look(f"decoding.max_new_tokens={longest}")
    assert "string.rotate: its longest right answer" not in caplog.text
