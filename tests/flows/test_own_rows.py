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
