"""What a pack leaves alone where it takes another one's place, and that one of the two is always whole."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evolora_core.report.pack_folder import STAMP, put

OWN = {STAMP, "README.md", "tuning.csv", "plots/curve.png"}


def made(folder: Path, files: dict[str, str], suite: str = "a-0123abcd") -> Path:
    """A pack with these files beside its stamp."""
    for name, text in (files | {STAMP: json.dumps({"suite": suite, "config": {}})}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def files_of(folder: Path) -> dict[str, str]:
    """The files of a pack but its stamp."""
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    return {name: text for name, text in texts.items() if name != STAMP}


def test_a_pack_is_replaced_whole_but_for_what_is_somebody_elses(tmp_path: Path) -> None:
    mine = {"notes.md": "mine", "drafts/a.txt": "mine", "plots/mine.png": "mine"}
    stale = {"README.md": "old", "plots/curve.png": "stale", "tuning.csv": "stale"}
    out = made(tmp_path / "out", mine | stale)
    put(made(tmp_path / "new", {"README.md": "new"}), out, OWN)
    assert files_of(out) == mine | {"README.md": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_pack_that_cannot_be_put_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {"README.md": "old", "NOTES.md": "mine"}
    out = made(tmp_path / "pack", before)
    replace, asked = os.replace, []

    def interrupted(source: Any, target: Any) -> None:
        asked.append(target)
        if len(asked) == 2:  # the old one is out of the way, the new one is not there
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupted)
        put(made(tmp_path / "first", {"README.md": "new"}), out, OWN)
    assert files_of(out) == before

    left = tmp_path / ".pack.abc"  # what a kill at that place leaves
    left.mkdir()
    out.rename(left / "old")
    put(made(tmp_path / "second", {"README.md": "new"}), out, OWN)
    assert files_of(out) == {"README.md": "new", "NOTES.md": "mine"}

    other = tmp_path / ".pack.v2.abc"  # of a pack with a longer name
    other.mkdir()
    out.rename(other / "old")
    put(made(tmp_path / "third", {"README.md": "new"}), out, OWN)
    assert (other / "old" / "NOTES.md").exists() and files_of(out) == {"README.md": "new"}


def test_the_pack_of_another_suite_is_not_replaced_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = made(tmp_path / "out", {}, "b-00000000")
    put(made(tmp_path / "same", {}, "b-00000000"), out, OWN)
    assert not caplog.records
    put(made(tmp_path / "other", {}), out, OWN)
    assert "`evolora pack b-00000000 --out FOLDER` makes it anew" in caplog.text


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What it leads to, somebody's key perhaps, is no part of a pack that is published."""
    (tmp_path / "secret").write_text("key")
    out, new = (made(tmp_path / name, {}) for name in ("out", "new"))
    (out / "notes.txt").symlink_to(tmp_path / "secret")
    (out / "gone.txt").symlink_to(tmp_path / "nowhere")
    put(new, out, OWN)
    assert (out / "notes.txt").readlink() == tmp_path / "secret"
    assert (out / "gone.txt").is_symlink()
