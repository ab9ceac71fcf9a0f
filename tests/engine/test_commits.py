"""Commits of a loop that appends a line a round and keeps a sum: what is written, and what a resumed loop finds."""

import logging
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.engine import artifacts, commits


def write(text: str, folder: Path) -> None:
    (folder / "text").write_text(text)


def loop(folder: Path, rounds: int) -> tuple[int, str]:
    """Go on until so many rounds are done, with a commit after each; what the loop knows then: (sum, lines)."""
    total, lines = resumed(folder)
    for number in range(len(lines) + 1, rounds + 1):
        total += number
        lines += str(number % 10)
        commits.commit(folder, number, partial(write, str(total)), partial(write, lines[-1]))
    return total, lines


def resumed(folder: Path) -> tuple[int, str]:
    found = commits.latest(folder)
    if found is None:
        return 0, ""
    lines = "".join((segment / "text").read_text() for segment in found.segments)
    assert len(lines) == found.number
    return int((found.folder / "text").read_text()), lines


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in [*folder.glob("g*"), *folder.glob("rows/*")])


def spoil(path: Path) -> None:
    os.truncate(path, 0)


def test_two_commits_are_kept_and_all_rows(tmp_path: Path) -> None:
    assert loop(tmp_path, 5) == (15, "12345")
    assert names(tmp_path) == ["g000004", "g000005", *(f"rows/00000{i}" for i in range(1, 6))]
    assert resumed(tmp_path) == (15, "12345")


def test_a_round_is_committed_once(tmp_path: Path) -> None:
    loop(tmp_path, 2)
    assert commits.commit(tmp_path, 2, partial(write, "other"), partial(write, "x")) is None
    assert resumed(tmp_path) == (3, "12")


def test_rows_are_no_part_of_a_loop_that_has_none(tmp_path: Path) -> None:
    for number in range(1, 4):
        commits.commit(tmp_path, number, partial(write, str(number)))
    found = commits.latest(tmp_path)
    assert found and found.number == 3 and found.segments == [] and names(tmp_path) == ["g000002", "g000003"]


@pytest.mark.parametrize("name", ["g000003/text", "g000003/manifest.json", "rows/000003/text", "rows/000003"])
def test_what_is_damaged_is_gone_on_from_before_it(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    loop(tmp_path, 3)
    spoil(tmp_path / name) if (tmp_path / name).is_file() else shutil.rmtree(tmp_path / name)
    with caplog.at_level(logging.WARNING):
        assert resumed(tmp_path) == (3, "12")
    assert "checkpoint g000003: " in caplog.text and "going on from before it" in caplog.text
    assert names(tmp_path) == ["g000002", "rows/000001", "rows/000002"]
    assert loop(tmp_path, 6) == (21, "123456")


def test_rows_that_both_commits_need_leave_nothing_to_go_on_from(tmp_path: Path) -> None:
    loop(tmp_path, 4)
    spoil(tmp_path / "rows/000002" / "text")
    assert resumed(tmp_path) == (0, "") and names(tmp_path) == []
    assert loop(tmp_path, 4) == (10, "1234")


def test_a_commit_that_says_nothing_of_its_rows_is_not_gone_on_from(tmp_path: Path) -> None:
    loop(tmp_path, 2)
    artifacts.partial_folder(tmp_path / "g000003")
    artifacts.commit(tmp_path / "g000003", {"generation": 3})
    assert resumed(tmp_path) == (3, "12")


def test_commits_are_in_the_order_of_their_rounds(tmp_path: Path) -> None:
    for number in (999_999, 1_000_000):
        commits.commit(tmp_path, number, partial(write, str(number)))
    found = commits.latest(tmp_path)
    assert found and found.number == 1_000_000


def test_rows_of_another_run_are_not_taken_for_its_own(tmp_path: Path) -> None:
    """A segment that is whole, but is not the one that was there when the commit was made."""
    loop(tmp_path / "a", 3)
    loop(tmp_path / "b", 1)
    shutil.rmtree(tmp_path / "a" / "rows/000002")
    commits._make(tmp_path / "a" / "rows/000002", partial(write, "x"), None)
    assert resumed(tmp_path / "a") == (0, "")


@given(st.integers(1, 5), st.integers(1, 3))
def test_a_loop_killed_at_any_write_ends_as_if_nothing_had_been(
    tmp_path_factory: pytest.TempPathFactory, round_: int, moment: int
) -> None:
    """Killed while rows are written, between rows and state, or while the state is written."""
    folder = tmp_path_factory.mktemp("loop")

    def dying(inner: Callable[[Path], None], place: Path) -> None:
        inner(place)
        raise KeyboardInterrupt

    total, lines = loop(folder, round_ - 1)
    state, rows = partial(write, str(total + round_)), partial(write, str(round_))
    with pytest.raises(KeyboardInterrupt):
        if moment == 1:
            commits.commit(folder, round_, state, partial(dying, rows))
        elif moment == 2:
            commits.commit(folder, round_, partial(dying, lambda _: None), rows)
        else:
            commits.commit(folder, round_, partial(dying, state), rows)
    assert resumed(folder) == (total, lines)
    assert loop(folder, 6) == (21, "123456")
    assert resumed(folder) == (21, "123456")
    assert not list(folder.rglob("*.partial"))


def test_a_copied_folder_is_gone_on_from(tmp_path: Path) -> None:
    loop(tmp_path / "short", 2)
    shutil.copytree(tmp_path / "short", tmp_path / "long")
    assert loop(tmp_path / "long", 4) == (10, "1234") and resumed(tmp_path / "short") == (3, "12")
