"""Holdout files of a suite: what is read and refused, what a seed is asked, and what a stage depends on."""

import json
import os
import time
from contextvars import Context
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine.identity import code_as_it_is
from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import StageRequest, StageResult, Suite, Work
from evolora_core.engine.strict import stated
from evolora_core.errors import ConfigError, DataError, StageError
from evolora_core.language.datasets import read_items, write_items
from evolora_core.language.families.base import Item
from evolora_core.language.holdouts import read_holdout
from evolora_core.searches.adapters.evaluation.chosen import Chosen
from evolora_core.searches.adapters.evaluation.holdout_files import read_file, sample
from evolora_core.searches.adapters.experiment import load_suite
from evolora_core.searches.adapters.settings.holdouts import HoldoutFile
from evolora_core.searches.adapters.stages import evaluate, holdouts
from evolora_core.searches.registry import load_experiment, load_known

ROOT = Path(__file__).parents[3]
GRID = ROOT / "tests" / "data" / "holdout_grid.jsonl"


def request(file: Path, **more: Any) -> StageRequest:
    """The stage of one file, for seed 0."""
    asked = json.dumps([{"file": str(file), **more}])
    config = load_suite(ROOT / "configs" / "suites" / "tiny.yaml", [f"evaluation.holdouts={asked}"])
    return holdouts.request(Suite(config, SuiteId("tiny", "0" * 8)), 0, datasets=result("datasets", "d" * 16))


def result(stage: str, identity: str, summary: Any = None) -> StageResult:
    """What an earlier stage hands on."""
    given: dict[str, Any] = {"condition": "shared", "seed": 0, "folder": "", "seconds": 0.0, "flops": 0}
    return StageResult(stage=stage, identity=identity, summary=summary or {}, **given)


def made(asked: StageRequest, folder: Path, known: dict[str, list[Item]]) -> tuple[Any, Path]:
    """The facts and the folder of a stage whose seed has the splits `known`."""
    out = folder / asked.identity
    for path in (folder / "datasets", out):
        path.mkdir(parents=True, exist_ok=True)
    for split in ("train", "selection"):
        write_items(folder / "datasets" / f"{split}.jsonl", known.get(split, []))
    inputs = {"datasets": folder / "datasets"}
    work: Work[Any] = Work(config=asked.config, seed=0, folder=out, inputs=inputs)
    return holdouts.make(work).facts.root["mine"], out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text(GRID.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_a_file_without_a_fault_is_asked_whole(file: Path, tmp_path: Path) -> None:
    count, out = made(request(file), tmp_path, {})
    assert (count.items, count.left_out) == (20, 0) and "code.format" in count.families
    assert read_items(out / "mine.jsonl") == read_holdout(file)


def test_what_a_seed_learned_or_chose_on_is_left_out_and_counted(file: Path, tmp_path: Path) -> None:
    items = read_holdout(file)
    spaced = Item(f"  {items[3].prompt} ", "", "math", "short", "x")  # the same prompt to whoever compares prompts
    count, out = made(request(file), tmp_path, {"train": [spaced, items[5]], "selection": [items[5], items[7]]})
    assert (count.items, count.left_out) == (17, 3)
    assert read_items(out / "mine.jsonl") == [item for i, item in enumerate(items) if i not in (3, 5, 7)]
    with pytest.raises(DataError, match="seed 0 trains or chooses on every prompt of it; take it out of eval"):
        made(request(file), tmp_path, {"train": items})


def test_a_sample_is_drawn_by_its_seed_and_hardly_changes_with_what_is_left_out() -> None:
    items = read_holdout(GRID)
    asked = HoldoutFile(file=str(GRID), items=8, seed=1)
    whole = sample(asked, items, range(20))
    assert whole == sample(asked, items, range(20)) and len(whole) == 8
    assert whole != sample(HoldoutFile(file=str(GRID), items=8, seed=2), items, range(20))
    without = sample(asked, items, [place for place in range(20) if items[place] != whole[2]])
    assert len(without) == 8 and [item for item in whole if item in without] == whole[:2] + whole[3:]
    assert sample(asked, items, range(3)) == items[:3]


def test_an_edited_file_is_measured_again(file: Path, tmp_path: Path) -> None:
    before, other = request(file), request(file, items=5)
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert request(file).identity == before.identity != other.identity  # the items are the same
    rows = file.read_text(encoding="utf-8").replace('"target": 14', '"target": 15', 1)
    file.write_text(rows, encoding="utf-8")
    assert request(file).identity != before.identity
    with pytest.raises(DataError, match=r"mine.jsonl: has changed since the suite was started; start it again"):
        made(before, tmp_path, {})


def test_a_file_that_is_written_while_a_suite_runs_is_refused(file: Path, tmp_path: Path) -> None:
    with code_as_it_is():
        os.utime(file, (time.time(), time.time()))  # the kernel's own clock is coarser
        with pytest.raises(StageError, match=r"mine.jsonl: was changed while the suite runs; run it again"):
            made(request(file), tmp_path, {})
    assert made(request(file), tmp_path, {})[0].items == 20


def test_an_evaluation_depends_on_the_items_and_on_what_grades_them(file: Path) -> None:
    config = load_suite(ROOT / "configs" / "suites" / "tiny.yaml", [f"evaluation.holdouts=[{file}]"])
    suite = Suite(config, SuiteId("tiny", "0" * 8))
    data = result("datasets", "d" * 16)
    facts = {"mine": {"items": 1, "left_out": 0, "families": ["regex.synthesis"]}}
    asked = [
        evaluate.request(suite, "frozen", 0, datasets=data, holdouts=further)
        for further in (None, result("holdouts", "a" * 16, facts), result("holdouts", "b" * 16, facts))
    ]
    assert len({own.identity for own in asked}) == 3
    graders = [own.identity_document["also"] for own in asked]
    assert set(graders[1]) - set(graders[0]) == {"evolora_core.language.families.regex_synthesis"}
    assert Chosen.model_validate(facts).families == ["regex.synthesis"]


def test_a_file_may_ask_for_a_task_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the suite names its files from there
    path = tmp_path / "mine.jsonl"
    write_items(path, [Item("Compute 17 - 4.", 10, "rounded", "all", "x")])
    config = load_suite(ROOT / "configs" / "suites" / "own-tasks.yaml", [f"evaluation.holdouts=[{path}]"])
    suite, data = Suite(config, SuiteId("own-tasks", "0" * 8)), result("datasets", "d" * 16)
    asked = Context().run(holdouts.request, suite, 0, datasets=data)  # as in a worker, where nobody has loaded it
    assert asked.identity == holdouts.request(suite, 0, datasets=data).identity


def test_a_fault_is_one_line_that_names_key_file_and_mend(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    write_items(path, read_holdout(GRID)[:3])
    with pytest.raises(ConfigError, match=r"^evaluation.holdouts: .*mine.jsonl: has 3 items, not 4; ask for fewer$"):
        read_file(HoldoutFile(file=str(path), items=4))
    row = asdict(read_holdout(GRID)[0]) | {"family": "mahts"}
    path.write_text(path.read_text(encoding="utf-8") + json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^evaluation.holdouts: .*mine.jsonl:4: family: unknown family 'mahts': did"):
        read_file(HoldoutFile(file=str(path)))


REGEX = str(ROOT / "tests" / "data" / "holdout_regex.jsonl")


def test_a_column_makes_several_splits_of_one_file(tmp_path: Path) -> None:
    """Each has its own items, and what chose them is part of the stage's identity."""
    files = [
        {"file": REGEX, "where": {"holdout_type": "operator"}, "split": "operator"},
        {"file": REGEX, "where": {"holdout_type": None}, "split": "usual"},
        {"file": REGEX, "split": "mine"},
    ]
    pairs = '[{"a": "ecology", "b": "frozen", "split": "usual"}]'
    changes = [f"evaluation.holdouts={json.dumps(files)}", f"evaluation.comparisons={pairs}"]
    config = load_suite(ROOT / "configs" / "suites" / "tiny.yaml", changes)
    suite, data = Suite(config, SuiteId("tiny", "0" * 8)), result("datasets", "d" * 16)
    asked = holdouts.request(suite, 0, datasets=data)
    _, out = made(asked, tmp_path, {})
    sizes = {name: len(read_items(out / f"{name}.jsonl")) for name in ("operator", "usual", "mine")}
    assert sizes == {"operator": 1, "usual": 6, "mine": 7}
    assert config.model_validate_json(config.model_dump_json()) == config  # as a worker reads it


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"file": REGEX, "where": {"holdout_type": "none"}}, r"has no row with holdout_type 'none'; holdout_type has"),
        ({"file": REGEX, "split": "train"}, r"'train' cannot name a split: letters, digits, - and _, and none of"),
        ({"file": REGEX, "where": {}}, r"evaluation.holdouts.0.where"),
        ({"file": REGEX, "where": {"a": 3}}, r"evaluation.holdouts.0.where.a"),
    ],
)  # fmt: skip
def test_a_faulty_choice_is_one_line(file: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        load_suite(ROOT / "configs" / "suites" / "tiny.yaml", [f"evaluation.holdouts={json.dumps([file])}"])
    assert "\n" not in str(raised.value)


def test_the_regex_suite_asks_every_kind_alone_and_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load_suite("configs/suites/regex.yaml")
    items = {own.name: [item.task_id for item in read_file(own)] for own in config.evaluation.holdouts}
    kinds = ["operator", "composition", "semantic_coupling", "surface_form"]
    assert list(items) == [*kinds, "unseen"] and sum((items[kind] for kind in kinds), []) == items["unseen"]
    asked = {item.family for own in config.evaluation.holdouts for item in read_file(own)}
    assert asked == set(config.data.train_families) and len(asked) == 6


def test_what_was_resolved_is_read_without_the_files_that_it_names(tmp_path: Path) -> None:
    """As where shards are joined on another computer."""
    file = tmp_path / "mine.jsonl"
    file.write_text(GRID.read_text())
    asked = json.dumps([{"file": str(file)}])
    config = load_suite(ROOT / "configs" / "suites" / "tiny.yaml", [f"evaluation.holdouts={asked}"])
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(stated(config)))
    file.unlink()
    with pytest.raises(ConfigError, match=r"suite.json:1: .*mine.jsonl"):
        load_experiment(path)
    assert load_known(path) == config
