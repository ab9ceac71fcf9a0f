"""From rows of a user to a pack: the suite of docs/extending.md, made smaller."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from evolora_core.store import query
from flows.cli import main

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("seeds=[0]", "processes=1", "data.train_items=128", "data.selection_items=16", "data.holdout_items=48",
    "ecology.generations=2", "ecology.episodes=32", "ecology.samples=2", "calibration.generations=1",
    "sft.checkpoints=2", "evaluation.bootstrap=200")  # fmt: skip


def test_the_page_shows_the_suite() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    shown = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    suite = yaml.safe_load((ROOT / "configs" / "suites" / "own-tasks.yaml").read_text())
    assert shown == {key: suite[key] for key in shown} and {*shown} == {"tasks", "data"}


@pytest.fixture(scope="module")
def finished(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The suite, run by the command that the page names."""
    place = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(place / "home"))
        patch.setenv("PREFECT_API_URL", prefect_server)
        patch.chdir(ROOT)
        changes = [word for change in SMALL for word in ("--set", change)]
        with pytest.raises(SystemExit) as end:
            main(["run", "configs/suites/own-tasks.yaml", "--packs", str(place / "packs"), *changes])
        assert end.value.code == 0
        yield SimpleNamespace(home=place / "home", pack=place / "packs" / "own-tasks")


def test_every_arm_is_judged_on_the_users_rows(finished: SimpleNamespace) -> None:
    sql = """SELECT condition, family, n FROM accuracy
        WHERE condition = arm AND family IN ('rounded', 'string.rotate') ORDER BY ALL"""
    found = query(finished.home, sql).rows
    assert found == [
        (condition, family, count)
        for condition in ("ecology", "frozen", "sft", "single")
        for family, count in (("rounded", 24), ("string.rotate", 48))
    ]
    assert (finished.pack / "README.md").is_file()


def test_the_splits_are_the_users_rows_and_share_none(finished: SimpleNamespace) -> None:
    sizes = dict(query(finished.home, "SELECT split, n FROM splits WHERE family = 'rounded'").rows)
    assert sizes == {"train": 64, "selection": 8, "holdout_id": 24}
    assert query(finished.home, "SELECT sum(shared) FROM leaks").rows == [(0,)]


def test_a_holdout_file_may_ask_for_the_users_task(finished: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text(
        '{"prompt": "Compute 512 - 7.", "target": 500, "family": "rounded", "depth": "all"}\n'
    )
    arguments = ["--holdout", str(tmp_path / "more.jsonl"), "--run", "own-tasks.ecology.s0"]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(finished.home))
        main(["evaluate", *arguments])
    assert end.value.code == 0


def test_the_splits_are_a_data_set_again(finished: SimpleNamespace, tmp_path: Path) -> None:
    """What `evolora export-data` writes is read by `datasets`, and by a suite as a task with splits of its own."""
    import datasets

    from evolora_core.language.tasks.pools import read_pool
    from evolora_core.language.tasks.settings import TaskConfig

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(finished.home))
        main(["export-data", "own-tasks", "--out", str(tmp_path / "data")])
    assert end.value.code == 0
    found = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in found.items()} == {
        "train": 128, "selection": 16, "holdout_id": 48, "holdout_ood": 48, "retention": 48,
    }  # fmt: skip
    own = [row for row in found["train"] if row["family"] == "rounded"]
    assert len(own) == 64 and all(row["answer"] == row["target"] and row["answer"].endswith("0") for row in own)
    splits = {"train": "train", "selection": "selection", "holdout": "holdout_id"}
    settings = {"name": "again", "data": str(tmp_path / "data"), "splits": splits, "verifier": {"kind": "exact"}}
    assert len(read_pool(TaskConfig.model_validate(settings)).parts["holdout"]) == 48


def test_the_host_is_asked_before_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`evolora task check`, on the shipped suite and on a task that the host knows nothing of."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(tmp_path))
        patch.chdir(ROOT)
        main(["task", "check", "configs/suites/own-tasks.yaml", "--set", "ecology.episodes=32"])
    said = capsys.readouterr().out
    assert end.value.code == 0 and "rounded: answers of the bare host" in said and "FLOPs, evaluation apart" in said
    table = {line.split()[0]: line.split() for line in said.split("\n\n")[0].splitlines()[1:]}
    assert table["rounded"][1:3] == ["2400", "1344"] and 0 < float(table["rounded"][4]) < 50
    assert float(table["rounded"][8]) > float(table["rounded"][4])  # a search finds more than greedy answers give
    assert table["string.rotate"][1] == "512"  # drawn, and not trained on


def test_a_task_of_which_nothing_is_right_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = "".join(f"{number} in Klingon?,qo'{number:04}x\n" for number in range(200))
    (tmp_path / "rows.csv").write_text(f"prompt,answer\n{rows}")
    tasks = f"[{{name: klingon, data: {tmp_path / 'rows.csv'}, verifier: {{kind: exact}}}}]"
    changes = [f"tasks={tasks}", "data.train_families=[klingon]", "data.ood_families=[math]", "data.train_items=64",
        "data.selection_items=16", "data.holdout_items=16"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(tmp_path))
        patch.chdir(ROOT)
        words = [word for change in changes for word in ("--set", change)]
        main(["task", "check", "configs/suites/own-tasks.yaml", *words])
    said = capsys.readouterr().out
    assert end.value.code == 0 and "calibrate: the host answered none of" in said
