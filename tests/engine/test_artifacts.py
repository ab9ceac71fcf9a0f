"""An artefact is whole or it is not there."""

import os
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine import artifacts
from evolora_core.errors import ConfigError, StageError


def made(folder: Path, text: str = "numbers") -> Any:
    partial = artifacts.partial_folder(folder)
    (partial / "sub").mkdir(exist_ok=True)
    (partial / "sub" / "table.txt").write_text(text)
    return artifacts.commit(folder, {"stage": "x"})


def test_committing_hashes_every_file_and_moves_the_folder(tmp_path: Path) -> None:
    manifest = made(tmp_path / "a")
    assert list(manifest["files"]) == ["sub/table.txt"]
    assert artifacts.read_manifest(tmp_path / "a") == artifacts.manifest_of(tmp_path / "a") == manifest
    assert artifacts.damage(tmp_path / "a") is None
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_scratch_is_no_part_of_it_and_stays_until_the_manifest_is_written(tmp_path: Path) -> None:
    partial = artifacts.partial_folder(tmp_path / "a")
    for scratch in ("work", "arms/x/answered"):
        (partial / scratch).mkdir(parents=True)
        (partial / scratch / "half.txt").write_text("half")
    (partial / "arms" / "x" / "answers.txt").write_text("all")
    (partial / "manifest.json").mkdir()  # a disk that does not take it
    with pytest.raises(OSError):
        artifacts.commit(tmp_path / "a", {"stage": "x"}, ["work", "answered"])
    assert (partial / "work" / "half.txt").exists() and (partial / "arms" / "x" / "answered" / "half.txt").exists()
    (partial / "manifest.json").rmdir()
    manifest = artifacts.commit(tmp_path / "a", {"stage": "x"}, ["work", "answered"])
    assert list(manifest["files"]) == ["arms/x/answers.txt"]
    assert [path.name for path in (tmp_path / "a" / "arms" / "x").iterdir()] == ["answers.txt"]
    assert not (tmp_path / "a" / "work").exists() and artifacts.damage(tmp_path / "a") is None


def test_what_a_killed_attempt_left_is_still_there(tmp_path: Path) -> None:
    (artifacts.partial_folder(tmp_path / "a") / "checkpoint").write_text("1")
    assert (artifacts.partial_folder(tmp_path / "a") / "checkpoint").read_text() == "1"
    assert artifacts.damage(tmp_path / "a") == "it has no manifest"
    with pytest.raises(StageError, match="a: it has no manifest; run the suite again"):
        artifacts.manifest_of(tmp_path / "a")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / "sub" / "table.txt").write_text("other"), "sub/table.txt was changed"),
        (lambda folder: (folder / "sub" / "table.txt").unlink(), "sub/table.txt is gone"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "it has no manifest"),
    ],
)
def test_damage_is_seen_and_mended_by_making_it_again(tmp_path: Path, harm: Any, reason: str) -> None:
    made(tmp_path / "a")
    harm(tmp_path / "a")
    assert artifacts.damage(tmp_path / "a") == reason
    with pytest.raises(StageError, match=reason):
        artifacts.check(tmp_path / "a")
    made(tmp_path / "a", "again")
    assert artifacts.damage(tmp_path / "a") is None


def test_a_whole_artefact_of_another_suite_is_adopted_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    first, second, own = (tmp_path / name for name in ("first", "second", "own"))
    made(first)
    (first / "sub" / "table.txt").write_text("changed")
    assert not artifacts.adopt(own, [own, first])
    assert not own.exists()
    manifest = made(second, "whole")
    made(own)
    (own / "sub" / "table.txt").unlink()
    assert artifacts.adopt(own, [first, own, second])
    assert artifacts.read_manifest(own) == manifest and artifacts.damage(own) is None
    (own / "sub" / "table.txt").write_text("mine")
    assert artifacts.damage(second) is None  # it is a copy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "own", "second"]


def test_what_a_killed_process_left_goes_when_the_artefact_stands(tmp_path: Path) -> None:
    (artifacts.partial_folder(tmp_path / "a") / "checkpoint").write_text("1")
    made(tmp_path / "other")
    assert artifacts.adopt(tmp_path / "a", [tmp_path / "other"])
    artifacts.forget_partial(tmp_path / "a")
    artifacts.forget_partial(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "other"]


def test_documents_can_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        artifacts.write_json(tmp_path / "f.json", {})
    finally:
        os.umask(before)
    assert (tmp_path / "f.json").stat().st_mode & 0o777 == 0o640


def test_whoever_may_read_a_manifest_may_read_the_files_that_it_lists(tmp_path: Path) -> None:
    partial = artifacts.partial_folder(tmp_path / "a")
    (partial / "weights").mkdir()
    file = partial / "weights" / "all.safetensors"
    file.write_bytes(b"1")
    file.chmod(0o600)  # as safetensors leaves it
    artifacts.commit(tmp_path / "a", {})
    modes = {path.stat().st_mode for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert modes == {(tmp_path / "a" / artifacts.MANIFEST).stat().st_mode}


def test_an_atomic_write_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    artifacts.write_json(tmp_path / "f.json", {"a": 1})
    with pytest.raises(TypeError):
        artifacts.write_json(tmp_path / "f.json", {"a": object()})
    with pytest.raises(UnicodeEncodeError):
        artifacts.write_atomic(tmp_path / "f.json", "\udfff")
    assert (tmp_path / "f.json").read_text() == '{\n "a": 1\n}\n'
    assert len(list(tmp_path.iterdir())) == 1


def test_how_long_a_kill_may_cost_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert artifacts.commit_seconds() == 60
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0.5")
    assert artifacts.commit_seconds() == 0.5
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "soon")
    with pytest.raises(ConfigError, match="EVOLORA_COMMIT_SECONDS: 'soon' is not a number of seconds"):
        artifacts.commit_seconds()
