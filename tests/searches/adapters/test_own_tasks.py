"""Tasks of a user in a suite of the adapter search: what is refused, what a stage depends on, and a whole run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import HostUse, Suite, Work
from evolora_core.errors import ConfigError
from evolora_core.language.datasets import build_splits, cells_of_splits
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.tasks.own import define
from evolora_core.language.tasks.pools import read_pools
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite
from evolora_core.searches.adapters.stages import datasets, price

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "configs" / "suites" / "own-tasks.yaml"


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the shipped suite names its files from there


def load(folder: Path, **changes: Any) -> SuiteConfig:
    document = yaml.safe_load(SHIPPED.read_text()) | changes
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    return load_suite(folder / "suite.yaml")


def rounded(**changes: Any) -> list[dict[str, Any]]:
    """The tasks of the shipped suite, the first of them changed."""
    own, *others = yaml.safe_load(SHIPPED.read_text())["tasks"]
    return [own | changes, *others]


def test_the_shipped_suite_loads_again_from_what_was_resolved(tmp_path: Path) -> None:
    suite = load(tmp_path)
    assert [task.name for task in suite.tasks] == ["rounded", "string.rotate"]
    assert SuiteConfig.model_validate(suite.model_dump(mode="json")) == suite


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": rounded(name="math")}, "name: math is a family of this project; choose another name"),
        ({"tasks": rounded(name="other")}, "tasks: no list of `data` names 'other'; add it there, or take it out here"),
        ({"tasks": rounded(name="round")}, "tasks: no list of `data` names 'round', but one has 'rounded'; write both"),
        (
            {"tasks": rounded(name="My Rows")},
            "key 'tasks.0.name': must be lower-case letters, digits and '-', beginning",
        ),
        ({"tasks": rounded()[0]}, "key 'tasks': must be a list; put `- ` before each entry"),
        ({"host": "nanoo"}, "host: host 'nanoo': no such name, folder or GGUF file (did you mean 'nano'?)"),
        ({"tasks": [*rounded(), rounded()[0]]}, "tasks: 'rounded' stands twice"),
        ({"tasks": rounded(verifier=None)}, "how are answers graded"),
        ({"tasks": rounded(verifier={"kind": "numbers"})}, "its `kind` is one of exact, number"),
        ({"tasks": rounded(answer=None)}, "the verifier number needs answers; name their column"),
        ({"tasks": rounded(file="a.py")}, "give either `data` with a `verifier`, or a `file`"),
        ({"tasks": rounded(data="configs/tasks/none.csv")}, "none.csv: no such file"),
        ({"tasks": rounded(columns=["a"])}, "columns"),
        (
            {"tasks": rounded(verifier={"kind": "choice", "options": [True, False]})},
            "key 'tasks.0.verifier.options.0': must be text; put it in quotes (got True)",
        ),
        ({"tasks": rounded(where={"a": 3})}, "key 'tasks.0.where.a': must be text; put it in quotes (got 3)"),
        ({"tasks": rounded(family="a")}, "tasks: no list of `data` names a family of 'rounded', such as rounded.VALUE"),
        (
            {
                "tasks": rounded(family="a"),
                "data": {
                    "train_families": ["rounded.Big ones"],
                    "ood_families": ["math"],
                    "retention_families": ["logic"],
                },
            },
            "tasks: 'rounded.Big ones' cannot be the name of a family: at most 60 lower-case letters, digits",
        ),
        (
            {"tasks": rounded(answer=None, verifier={"kind": "regex", "pattern": "[0-9]+0"})},
            "conditions: 'sft' learns from right answers, and task 'rounded' has rows without one",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, **changes)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_rows_without_answers_serve_arms_that_need_none(tmp_path: Path) -> None:
    tasks = rounded(answer=None, verifier={"kind": "regex", "pattern": "[0-9]+0"})
    asked = {"routings": ["family"], "comparisons": []}
    without_gold: dict[str, Any] = {"tasks": tasks, "conditions": ["frozen", "ecology"], "evaluation": asked}
    suite = load(tmp_path, **without_gold)
    assert not suite.learns_from_gold("ecology")
    ecology = suite.ecology.model_dump(mode="json") | {"trials": [{}, {"memory": {"labels": 8}}]}
    with pytest.raises(ConfigError, match="conditions: 'ecology' learns from right answers"):
        load(tmp_path, **without_gold, ecology=ecology)


def test_rows_have_depths_of_their_own(tmp_path: Path) -> None:
    """The suite's `depths` are of the families of this project, whatever a column calls a row."""
    path = tmp_path / "rows.csv"
    lines = (ROOT / "configs" / "tasks" / "rounded.csv").read_text().splitlines()
    rows = [f"{line},{'short' if number % 2 else 'odd'}" for number, line in enumerate(lines[1:])]
    path.write_text("\n".join([f"{lines[0]},level", *rows]) + "\n")
    suite = load(tmp_path, tasks=rounded(data=str(path), depth="level"))
    cells = cells_of_splits(suite.data)["train"]
    assert [cell for cell in cells if cell[0] == "rounded"] == [("rounded", "odd"), ("rounded", "short")]
    assert [cell for cell in cells if cell[0] == "string.sort"] == [("string.sort", "short")]


def test_a_column_makes_families_of_one_data_set(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = (ROOT / "configs" / "tasks" / "rounded.csv").read_text().splitlines()
    rows = [f"{line},{'odd' if int(line.split(',')[1]) % 2 else 'even'}" for line in lines[1:]]
    path.write_text("\n".join([f"{lines[0]},kind", *rows]) + "\n")
    data = yaml.safe_load(SHIPPED.read_text())["data"]
    names = ["rounded.odd", "rounded.even"]
    asked = {"train_items": 128, "selection_items": 16, "holdout_items": 32}
    suite = load(tmp_path, tasks=rounded(data=str(path), family="kind"), data=data | asked | {"train_families": names})
    assert [task.name for task in suite.own_families] == ["rounded.even", "rounded.odd", "string.rotate"]
    assert SuiteConfig.model_validate(suite.model_dump(mode="json")).own_families == suite.own_families
    pools = read_pools(suite.own_families)
    for seed in (0, 1):
        splits = build_splits(suite.data, seed, pools)
        assert {item.family for item in splits["train"]} == set(names)
        for item in splits["train"]:
            second = int(item.prompt.rstrip(".").rpartition(" ")[2])
            assert item.family == ("rounded.odd" if second % 2 else "rounded.even")
    wrong = data | asked | {"train_families": ["rounded.odd", "rounded.prime"]}
    with pytest.raises(ConfigError, match=r"has no row with kind 'prime'; kind is even, odd"):
        load(tmp_path, tasks=rounded(data=str(path), family="kind"), data=wrong)


def test_the_splits_depend_on_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text((ROOT / "configs" / "tasks" / "rounded.csv").read_text())

    def identity() -> str:
        suite = load(tmp_path, tasks=rounded(data=str(path)))
        return datasets.request(Suite(suite, SuiteId("own-tasks", "0" * 8)), 0).identity

    before = identity()
    assert identity() == before
    path.write_text(path.read_text() + "1000,1,990\n")
    assert identity() != before


def test_a_run_tells_of_right_answers_that_are_longer_than_an_answer_may_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of tasks that are held out alone."""
    own = load(tmp_path)
    few = own.data.model_copy(update={"train_items": 16, "selection_items": 4, "holdout_items": 64})
    folder = tmp_path / "datasets"
    folder.mkdir()
    tasks = own.own_families
    splits = datasets.Splits(data=few, tasks=tasks, definitions=[define(task) for task in tasks])
    datasets.make(Work(config=splits, seed=0, folder=folder))
    host = HostUse("nano", "cpu", "float32", 1, host_files_hash(find_host("nano").path), {})
    practice = own.ecology.practice.model_copy(update={"answers": 4})
    for cap, told in ((16, []), (3, ["string.rotate"])):
        caplog.clear()
        config = price.Pricing(decoding=own.decoding.model_copy(update={"max_new_tokens": cap}), practice=practice)
        price.make(Work(config=config, host=host, seed=0, folder=tmp_path, inputs={"datasets": folder}))
        said = [record.getMessage() for record in caplog.records if "longest right answer" in record.getMessage()]
        assert [text.partition(":")[0] for text in said] == told
        assert all(f"answers end after {cap}, so that it can never be given; raise" in text for text in said)
