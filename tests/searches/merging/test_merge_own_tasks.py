"""Tasks of a user as domains of a merge suite: what is refused, how rows are cut, what a stage depends on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import StageResult, Suite
from evolora_core.engine.strict import stated
from evolora_core.errors import ConfigError, DataError
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical
from evolora_core.language.hosts.host import Host
from evolora_core.language.tasks.pools import Pool, read_pool
from evolora_core.searches import data_export
from evolora_core.searches.merging.data import Splits, draw_splits
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.judging.scoring import encoded
from evolora_core.searches.merging.stages import datasets, parent
from evolora_core.searches.registry import load_experiment

ROOT = Path(__file__).parents[3]
ROUNDED: dict[str, Any] = {
    "name": "rounded", "data": "configs/tasks/rounded.csv", "prompt": "Compute {a} - {b}.", "answer": "rounded",
    "verifier": {"kind": "number"},
}  # fmt: skip
ROTATE = {"name": "string.rotate", "file": "configs/tasks/rotate.py"}
PLAIN: dict[str, Any] = {
    "search": "merging",
    "name": "m",
    "conditions": ["base", "uniform"],
    "tasks": [ROUNDED, ROTATE],
    "domains": {"rounding": {"families": ["rounded"]}, "letters": {"families": ["string.rotate", "string.sort"]}},
    "data": {"train": 200, "search": 20, "selection": 10, "test": 40},
    "evaluation": {"comparisons": [{"a": "uniform", "b": "base"}]},
}


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # tasks name their files from there


def load(folder: Path, **changes: Any) -> MergeExperiment:
    (folder / "suite.yaml").write_text(yaml.safe_dump(PLAIN | changes))
    found = load_experiment(folder / "suite.yaml")
    assert isinstance(found, MergeExperiment)
    return found


def pools(config: MergeExperiment) -> dict[str, Pool]:
    return {task.name: read_pool(task) for task in config.own_families if task.data}


def prompts(splits: Splits, *names: str, family: str = "rounded") -> set[str]:
    items = [item for name in names for own in splits[name].values() for item in own if item.family == family]
    return {canonical(item.prompt) for item in items}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": [ROUNDED | {"name": "math"}, ROTATE]}, "name: math is a family of this project"),
        ({"tasks": [ROUNDED, ROTATE, ROTATE]}, "tasks: 'string.rotate' stands twice"),
        ({"tasks": [ROUNDED, ROTATE, ROUNDED | {"name": "other"}]}, "tasks: no domain names 'other'; add it there"),
        ({"tasks": [ROUNDED | {"family": "a"}, ROTATE]}, "tasks: no domain names a family of 'rounded'"),
        (
            {"domains": PLAIN["domains"] | {"rounding": {"families": ["rounded", "nowhere"]}}},
            "domains.rounding.families: unknown family 'nowhere'",
        ),
        (
            {"tasks": [ROUNDED | {"answer": None, "verifier": {"kind": "regex", "pattern": "[0-9]+0"}}, ROTATE]},
            "tasks: 'rounded' has rows without a right answer",
        ),
        (
            {"domains": PLAIN["domains"] | {"rounding": {"families": ["rounded", "rounded"]}}},
            "domains.rounding.families: 'rounded' stands twice; keep one",
        ),
        (
            {"domains": PLAIN["domains"] | {"rounding": {"families": ["rounded"], "depths": ["long"]}}},
            "domains.rounding.depths: none of its families is drawn 'long'; take that out",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, **changes)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_no_seed_trains_on_a_row_that_another_one_asks(tmp_path: Path) -> None:
    """Two domains share the rows; all splits of a seed are disjoint, and rows are on one side whatever the seed."""
    domains = PLAIN["domains"] | {"both": {"families": ["math", "rounded"]}}
    config = load(tmp_path, domains=domains)
    made = [draw_splits(config.domains, config.data, seed, pools(config)) for seed in range(3)]
    for splits in made:
        assert {split: len(own["rounding"]) for split, own in splits.items()} == config.data.model_dump()
        assert sum(item.family == "rounded" for item in splits["train"]["both"]) == 100
        assert len(prompts(splits, *splits)) == sum(config.data.model_dump().values()) * 3 // 2  # none twice
        assert {item.family for item in splits["test"]["letters"]} == {"string.rotate", "string.sort"}
    trained = set[str]().union(*(prompts(own, "train") for own in made))
    assert not trained & set[str]().union(*(prompts(own, "search", "selection", "test") for own in made))
    assert made[0] != made[1]


def test_given_splits_are_kept(tmp_path: Path) -> None:
    """What measures candidates comes of the selection's rows, and the test of the held-out ones."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, first in (("train", 0), ("validation", 100), ("test", 200)):
        rows = "".join(f"{number} plus one?,{number + 1}\n" for number in range(first, first + 40))
        (folder / f"{name}.csv").write_text(f"prompt,answer\n{rows}")
    splits = {"train": "train", "selection": "validation", "holdout": "test"}
    own = {"name": "rounded", "data": str(folder), "splits": splits, "verifier": {"kind": "number"}}
    sizes = {"train": 30, "search": 20, "selection": 10, "test": 40}
    config = load(tmp_path, tasks=[own, ROTATE], data=sizes)
    found = draw_splits(config.domains, config.data, 0, pools(config))
    numbers = {split: {int(item.prompt.split()[0]) // 100 for item in own["rounding"]} for split, own in found.items()}
    assert numbers == {"train": {0}, "search": {1}, "selection": {1}, "test": {2}}


def test_where_nothing_is_trained_given_splits_need_no_training(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, first in (("validation", 100), ("test", 200)):
        rows = "".join(f"{number} plus one?,{number + 1}\n" for number in range(first, first + 40))
        (folder / f"{name}.csv").write_text(f"prompt,answer\n{rows}")
    splits = {"selection": "validation", "holdout": "test"}
    own = {"name": "rounded", "data": str(folder), "splits": splits, "verifier": {"kind": "number"}}
    sizes = {"search": 20, "selection": 10, "test": 40}
    config = load(tmp_path, tasks=[own, ROTATE], models={"one": "nano", "two": "nano"}, data=sizes)
    found = draw_splits(config.domains, config.data, 0, pools(config), trains=False)
    assert {split: len(own["rounding"]) for split, own in found.items()} == sizes | {"train": 0}


def test_too_few_rows_are_counted_when_the_suite_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train: task rounded has .* of 5000 items; .* are missing: .* data\.train$"):
        load(tmp_path, data=PLAIN["data"] | {"train": 5000})


def test_where_nothing_is_trained_no_rows_are_kept_for_it(tmp_path: Path) -> None:
    """Models of one's own need none, whatever `data.train` says; one more training on all domains does."""
    sizes = {"search": 100, "selection": 50, "test": 150}
    own = {"models": {"one": "nano", "two": "nano"}, "data": sizes}
    config = load(tmp_path, **own)
    request = datasets.request(Suite(config, SuiteId("m", "0" * 8)), 0)
    work: Any = SimpleNamespace(config=request.config, folder=tmp_path / "made", seed=0)
    work.folder.mkdir()
    assert datasets.make(work).facts.root == {"train": 0, "search": 200, "selection": 100, "test": 300}
    assert datasets.read_split(work.folder, "train", config.domains) == {"rounding": [], "letters": []}
    assert set(data_export._read(work.folder, list(config.data.model_dump()))) == {"search", "selection", "test"}
    with pytest.raises(DataError, match=r"train: task rounded has .* of 4096 items"):
        load(tmp_path, **own, conditions=["base", "uniform", "multitask"])


def test_rows_decide_identities(tmp_path: Path) -> None:
    rows = (ROOT / "configs" / "tasks" / "rounded.csv").read_text()
    (tmp_path / "rows.csv").write_text(rows)
    asked = []
    for _ in range(2):
        config = load(tmp_path, tasks=[ROUNDED | {"data": str(tmp_path / "rows.csv")}, ROTATE])
        asked.append(datasets.request(Suite(config, SuiteId("m", "0" * 8)), 0))
        (tmp_path / "rows.csv").write_text(rows.replace(",380\n", ",390\n", 1))
    assert asked[0].identity != asked[1].identity
    assert asked[0].identity_document["code"] == asked[1].identity_document["code"]
    made = StageResult(
        stage="base", condition="shared", seed=0, folder="", identity="0", seconds=0, flops=0, summary={}
    )  # fmt: skip
    suite = Suite(config, SuiteId("m", "0" * 8))
    request = parent.request(suite, "rounding", 0, base=made, datasets=made)
    assert "evolora_core.language.tasks.verifiers" in request.identity_document["also"]


def test_a_suite_without_tasks_is_what_it_was() -> None:
    config = load_experiment(ROOT / "configs" / "suites" / "merge-quickstart.yaml")
    request = datasets.request(Suite(config, SuiteId("m", "0" * 8)), 0)  # type: ignore[arg-type]
    assert "tasks" not in stated(config) and not {"tasks", "definitions", "trains"} & {
        *request.identity_document["config"]
    }


def test_a_row_that_the_base_cannot_hold_is_named(merge_host: Host) -> None:
    item = Item("Sort the letters: " + "a " * merge_host.max_context, "a", "string.sort", "short", "x")
    with pytest.raises(DataError, match=r"string.sort: prompt and right answer have \d+ tokens") as error:
        encoded(merge_host, [item])
    assert "\n" not in str(error.value)
