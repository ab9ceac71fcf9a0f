"""What an ecology commits: what is alive, and once what has happened."""

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_ecologies import evolve, founded, start, without_clock

from evolora_core.engine import commits
from evolora_core.engine.probes import probe
from evolora_core.searches.adapters.ecology.checkpoint import load_state, save_state
from evolora_core.searches.adapters.ecology.events import LOGGED
from evolora_core.searches.adapters.ecology.evolve import advance, finish
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


def tiny(small: Any, generations: int) -> EcologyConfig:
    """Short generations of organelles with little memory, which never die of poverty."""
    data = small.config.model_dump() | {"generations": generations, "episodes": 16, "samples": 1, "ranks": [2]}
    data["plasticity"] |= {"steps": 1, "batch_rows": 4, "buffer": 6}
    data["economy"] |= {"ticket": 0.0}
    data["assimilation"] |= {"attempts": 0}
    return EcologyConfig.model_validate(data)


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def every_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")


def test_a_commit_does_not_grow_with_the_generations_behind_it(
    small: Any, tmp_path: Path, every_generation: None
) -> None:
    written: dict[int, tuple[int, int]] = {}

    def weigh(generation: int, folder: Path) -> None:
        written[generation] = size(folder), size(commits.segment_of(folder.parent, generation))

    run = start(small, tmp_path, tiny(small, 25))
    with probe("committed", weigh):
        advance(run)
    dead = [organelle for organelle in run.state.organelles if not organelle.alive]
    assert len(dead) > 25 and len(run.state.events["episodes"]) > 200  # which a whole state would have
    (early, early_rows), (late, late_rows) = written[10], written[25]
    assert late < 1.02 * early and late_rows < 1.1 * early_rows
    document = json.loads((tmp_path / "checkpoints" / "g000025" / "state.json").read_text())
    assert [row["id"] for row in document["organelles"]] == [organelle.id for organelle in run.state.living]
    assert 0 not in document["ledger"].values() and len(document["ledger"]) <= len(run.state.living) + 2
    total = size(tmp_path / "checkpoints")
    assert total < 3 * (early + late) + 25 * 1.1 * early_rows  # each row is there once


def test_what_was_committed_is_what_is_known(small: Any, tmp_path: Path, every_generation: None) -> None:
    """Events, the dead, accounts and memories of a resumed run are those of the run that died."""
    run = start(small, tmp_path)
    advance(run, generations=3)
    again = founded(small)
    found = commits.latest(tmp_path / "checkpoints")
    assert found and found.number == 3 and len(found.segments) == 3
    state = load_state(again.state, found)
    assert all(state.events[name] == run.state.events[name] for name in LOGGED) and state.events["dead"]
    assert not any(run.state.events.fresh.values())  # what is committed is held by neither
    assert state.events.segments == run.state.events.segments
    assert state.organelles == run.state.organelles and any(not organelle.alive for organelle in state.organelles)
    assert state.ledger.balances == run.state.ledger.balances
    assert {i: b.memories for i, b in state.buffers.items()} == {i: b.memories for i, b in run.state.buffers.items()}


def ended(run: Run) -> Any:
    advance(run)
    return without_clock(finish(run, ["family", "single"]).folder)


def test_a_run_killed_between_its_rows_and_its_state_is_the_same_run(
    small: Any, straight: Any, tmp_path: Path, every_generation: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(state: Any, folder: Path) -> None:
        if state.generation == 3:
            raise KeyboardInterrupt
        save_state(state, folder)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("evolora_core.searches.adapters.ecology.evolve.save_state", killed)
        advance(start(small, tmp_path))
    lost = commits.segment_of(tmp_path / "checkpoints", 3)
    assert lost.exists() and not (tmp_path / "checkpoints" / "g000003").exists()
    resumed = start(small, tmp_path)
    assert resumed.state.generation == 2 and not lost.exists()
    assert ended(resumed) == without_clock(straight.folder)


@pytest.mark.parametrize(("segment", "generation"), [("rows/000003", 2), ("rows/000001", 0)])
def test_rows_that_are_damaged_are_gone_on_from_before_them(
    small: Any,
    straight: Any,
    tmp_path: Path,
    every_generation: None,
    caplog: pytest.LogCaptureFixture,
    segment: str,
    generation: int,
) -> None:
    advance(start(small, tmp_path), generations=3)
    os.truncate(tmp_path / "checkpoints" / segment / "events.parquet", 100)
    with caplog.at_level(logging.WARNING):
        resumed = start(small, tmp_path)
    assert f"checkpoint g000003: {segment}: events.parquet was changed; going on from before it" in caplog.text
    assert resumed.state.generation == generation
    assert ended(resumed) == without_clock(straight.folder)


def test_commits_are_carried_by_a_copy_of_their_folder(
    small: Any, straight: Any, tmp_path: Path, every_generation: None
) -> None:
    advance(start(small, tmp_path / "calibration"), generations=2)
    shutil.copytree(tmp_path / "calibration" / "checkpoints", tmp_path / "evolution" / "checkpoints")
    assert ended(start(small, tmp_path / "evolution")) == without_clock(straight.folder)


def test_a_run_that_commits_seldom_and_one_that_commits_always_leave_the_same_tables(
    small: Any, straight: Any, tmp_path: Path, every_generation: None
) -> None:
    assert without_clock(evolve(small, tmp_path).folder) == without_clock(straight.folder)
