"""A seed that fails: the others go on, the pack is made of them, the flow fails and says so; `evolora retry` finishes
it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from number_search.search import SEARCHING
from number_search.stages import guess

from evolora_core.engine import identity
from evolora_core.engine.run_index import entries, read_entry, suites
from evolora_core.engine.stage import Stage, StageRequest, StageResult
from evolora_core.errors import ConfigError, PackError, StageError, StoreError
from evolora_core.store import query
from flows import _steps, _suite
from flows.cli import main

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "processes=1",
    "conditions=[frozen, ecology]",
    "ecology.generations=1",
    "ecology.trials=[]",
    "sft.trials=[]",
    "evaluation.routings=[family]",
    "evaluation.comparisons=[{a: ecology, b: frozen, split: holdout_id}]",
]


def run(packs: str, only: list[str] | None = None) -> dict[str, str]:
    """The smallest suite of two seeds."""
    from flows.paper_suite import paper_suite

    return paper_suite(str(ROOT / "configs" / "suites" / "tiny.yaml"), SMALL, only=only or [], packs=packs)


def refuse(*_: object) -> None:
    """A store that somebody holds."""
    raise StoreError("held by another process")


def compared(home: Path) -> list[int]:
    """How many seeds each comparison in the store is of."""
    return [row[0] for row in query(home, "SELECT seeds FROM comparison").rows]


def test_the_pack_has_the_complete_seeds_and_a_retry_the_rest(
    prefect_server: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    obstacle = home / "runs" / "tiny" / "ecology-s1"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("a file where a folder must be")
    with pytest.raises(StageError, match=r"ecology.s1.calibrate: .*the pack is without seed 1"):
        run("papers")
    pack = Path("papers/tiny/summary.json").absolute()
    summary = json.loads(pack.read_text())
    assert summary["seeds"] == [0]
    assert summary["missing_runs"] == ["ecology s1"]
    obstacle.unlink()
    first = {entry.file_name: entry.finished for entry in entries(home, suites(home)[-1])}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["retry", "--json"])
    assert end.value.code == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["suite"] for row in rows} == {str(suites(home)[-1])}
    assert {row["pack"] for row in rows} == {str(pack.parent)}
    assert {"frozen", "ecology"} <= {row["condition"] for row in rows}
    assert json.loads(pack.read_text())["seeds"] == [0, 1]
    after = {entry.file_name: (entry.state, entry.finished) for entry in entries(home, suites(home)[-1])}
    assert after["ecology-s1.evolve.json"][0] == "done"
    assert after["ecology-s0.evolve.json"] == ("cached", first["ecology-s0.evolve.json"])


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_what_another_code_left_is_not_mixed_with_what_this_one_makes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run("papers")
    assert compared(home) == [2]
    versions = identity.library_versions

    monkeypatch.setattr(identity, "library_versions", lambda modules: versions(modules) | {"changed": "1"})
    with monkeypatch.context() as locked:  # as a kill between the answers and the store would leave it
        locked.setattr(_suite, "forget", refuse)
        with pytest.raises(StageError, match="held by another"):
            run("papers", ["ecology.s0"])
    assert compared(home) == [2]
    run("papers", ["ecology.s0"])  # answered anew, and compared no more
    assert compared(home) == []
    folder = home / "runs" / "tiny" / "ecology-s1"
    folder.rename(folder.with_name("away"))
    folder.write_text("a file where a folder must be")
    with pytest.raises(StageError, match="the pack is without seed 1"):
        run("papers")
    assert compared(home) == [1]
    evaluated = "SELECT seed FROM stages WHERE condition = 'ecology' AND stage = 'evaluate'"
    assert query(home, evaluated).rows == [(0,)]
    indexed = {entry.file_name for entry in entries(home, suites(home)[-1])}
    assert indexed.isdisjoint({"ecology-s1.evolve.json", "ecology-s1.evaluate.json"})  # they wait

    monkeypatch.setattr(identity, "library_versions", versions)
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert run("papers") == made
    assert compared(home) == [2]


def test_what_another_process_mended_meanwhile_stays(
    prefect_server: str, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from flows.paper_suite import paper_suite

    Path("n.yaml").write_text("search: number\nname: n\nseeds: [0, 1]\nprocesses: 1\n")
    obstacle = home / "runs" / "n" / "evolved-s1"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("a file where a folder must be")
    mended: list[object] = []
    there = os.environ | {"PREFECT_API_URL": prefect_server, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}

    def then_retry_elsewhere(*given: Any) -> None:
        _steps.follow(*given)
        if not mended:
            obstacle.unlink()
            command = [sys.executable, "-m", "flows.cli", "retry", "n.evolved.s1"]
            mended.append(subprocess.run(command, env=there, check=True, capture_output=True))

    monkeypatch.setattr(_suite, "follow", then_retry_elsewhere)
    with pytest.raises(StageError, match="evolved.s1.evolve"):
        paper_suite("n.yaml")
    assert any("another process made what failed here" in line for line in caplog.messages)
    assert query(home, "SELECT count(*) FROM stages WHERE condition = 'evolved' AND seed = 1").rows == [(2,)]
    entry = read_entry(home, suites(home)[-1], "evolved", 1, "evaluate")
    assert entry and entry.state == "done"


@pytest.mark.usefixtures("prefect_server")
def test_a_seed_whose_search_could_not_be_recorded_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a table would have means over other seeds in one column than in the next."""
    from flows.paper_suite import paper_suite

    Path("n.yaml").write_text("search: number\nname: n\nseeds: [0, 1]\nprocesses: 1\n")
    load = _suite.record  # type: ignore[attr-defined]

    def full(suite: str, result: StageResult, **given: Any) -> Any:
        if (result.stage, result.seed) == ("evolve", 1):
            raise StoreError("the disk is full")
        return load(suite, result, **given)

    with monkeypatch.context() as disk, pytest.raises(StageError, match=r"disk is full.*the pack is without seed 1"):
        disk.setattr(_suite, "record", full)
        paper_suite("n.yaml")
    assert json.loads(Path("packs/n/summary.json").read_text())["seeds"] == [0]
    assert query(home, "SELECT seed FROM complete_seeds").rows == [(0,)]
    entry = read_entry(home, suites(home)[-1], "evolved", 1, "evolve")
    assert entry and (entry.state, entry.reason) == ("failed", "the disk is full")
    paper_suite("n.yaml")
    assert json.loads(Path("packs/n/summary.json").read_text())["seeds"] == [0, 1]


@pytest.mark.usefixtures("prefect_server")
def test_status_says_why_a_stage_could_not_be_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.paper_suite import paper_suite

    def gone(suite: object, condition: str, seed: int, *, hints: StageResult) -> StageRequest:
        raise ConfigError("mine.jsonl: cannot be read")

    Path("n.yaml").write_text("search: number\nname: n\nseeds: [0]\nprocesses: 1\n")
    monkeypatch.setitem(SEARCHING, "guessed", Stage("guess", gone, guess))
    with pytest.raises(StageError, match=r"mine.jsonl: cannot be read"):
        paper_suite("n.yaml")
    entry = read_entry(home, suites(home)[-1], "guessed", 0, "guess")
    assert entry and (entry.state, entry.reason) == ("failed", "mine.jsonl: cannot be read")


@pytest.mark.usefixtures("prefect_server")
def test_a_folder_that_is_no_pack_stops_the_suite_before_it_starts(home: Path) -> None:
    Path("packs/tiny").mkdir(parents=True)
    Path("packs/tiny/thesis.tex").write_text("years of work")
    with pytest.raises(PackError, match="packs/tiny: holds something that is not a pack"):
        run("packs")
    assert not (home / "runs").exists()
