"""The index of a suite."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine.artifacts import commit, partial_folder
from evolora_core.engine.run_index import (
    Entry,
    State,
    SuiteId,
    begin,
    entries,
    find_run,
    is_made,
    now,
    older_with,
    read_entry,
    read_packs,
    read_suite,
    suites,
    waiting,
    write_entry,
    write_plan,
    write_suite,
)
from evolora_core.errors import ConfigError, StageError
from evolora_core.searches.registry import find_suite

SUITE = SuiteId("try", "0123abcd")


def entry(state: State = "done", stage: str = "evolve", **changes: Any) -> Entry:
    return Entry(str(SUITE), SUITE.run_id("ecology", 2), "ecology", 2, stage, "runs/try/x", "f" * 16, state, **changes)


def test_an_entry_comes_back_as_it_was(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {"name": "try"})
    written = entry(seconds=1.5, flops=10**12)
    write_entry(tmp_path, SUITE, written)
    assert read_entry(tmp_path, SUITE, "ecology", 2, "evolve") == written
    assert read_entry(tmp_path, SUITE, "ecology", 3, "evolve") is None
    assert written.run_id == "try-0123abcd.ecology.s2"
    assert (SUITE.index(tmp_path) / "ecology-s2.evolve.json").is_file()


def test_the_suite_that_was_run_last_is_the_latest(tmp_path: Path) -> None:
    other = SuiteId("try", "89abcdef")
    for suite in (SUITE, other, SUITE):
        write_suite(tmp_path, suite, {"name": "try"})
        time.sleep(0.02)  # clocks of file systems tick by some milliseconds
    assert suites(tmp_path) == [other, SUITE]
    assert find_suite(tmp_path, "try") == SUITE


def test_a_suite_is_never_found_without_the_folder_of_its_pack(tmp_path: Path) -> None:
    """A kill may come between any two files."""
    begin(tmp_path, SUITE, {"name": "try"}, tmp_path / "packs")
    files = sorted(SUITE.index(tmp_path).iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert [file.name for file in files] == ["packs.json", "suite.json"]
    assert read_packs(tmp_path, SUITE) == tmp_path / "packs"


def test_a_stage_whose_process_is_gone_has_failed(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {})
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    write_entry(tmp_path, SUITE, entry("running", pid=child.pid))
    (found,) = entries(tmp_path, SUITE)
    assert found.state == "failed"
    assert "killed" in found.reason


def test_a_process_of_another_machine_cannot_be_seen_from_here(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    for node, state in ((platform.node(), "failed"), ("elsewhere", "running")):
        write_entry(tmp_path, SUITE, entry("running", pid=child.pid, node=node))
        (found,) = entries(tmp_path, SUITE)
        assert found.state == state


def test_a_process_that_was_born_later_is_another(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {})
    for started, state in (("2020-01-01T00:00:00+00:00", "failed"), (now(), "running")):
        write_entry(tmp_path, SUITE, entry("running", pid=os.getpid(), started=started))
        (found,) = entries(tmp_path, SUITE)
        assert found.state == state


def test_suites_are_found_by_id_and_by_name(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {})
    assert find_suite(tmp_path, "try") == find_suite(tmp_path, "try-0123abcd") == SUITE
    with pytest.raises(ConfigError, match="nope: no such suite in .*; known: try-0123abcd"):
        find_suite(tmp_path, "nope")


def test_a_run_of_an_older_suite_is_named_in_full(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {})
    write_entry(tmp_path, SUITE, entry())
    assert find_run(tmp_path, "try.ecology.s2", lambda _: ["evolve"]).suite == str(SUITE)
    time.sleep(0.02)
    write_suite(tmp_path, SuiteId("try", "89abcdef"), {})
    with pytest.raises(ConfigError, match=r"an older suite of this name has it: try-0123abcd\.ecology\.s2"):
        find_run(tmp_path, "try.ecology.s2", lambda _: ["evolve"])
    with pytest.raises(ConfigError, match="`evolora status try-89abcdef` lists them"):
        find_run(tmp_path, "try.ecology.s3", lambda _: ["evolve"])


def test_a_run_that_waits_is_told_from_one_that_there_is_not(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {})
    write_plan(tmp_path, SUITE, ["ecology.s2.evolve", "whole.s0.pack"])
    with pytest.raises(ConfigError, match="try.ecology.s2: is not made yet; `evolora retry try-0123abcd`"):
        find_run(tmp_path, "try.ecology.s2", lambda _: ["evolve"])


def test_a_stage_counts_as_made_while_its_folder_is_there(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {})
    write_entry(tmp_path, SUITE, entry())
    newer = SuiteId("try", "89abcdef")
    write_suite(tmp_path, newer, {})
    assert not is_made(tmp_path, entry()) and not older_with(tmp_path, newer, "evolve")
    partial_folder(tmp_path / "runs/try/x")
    commit(tmp_path / "runs/try/x", {})
    assert is_made(tmp_path, entry()) and not is_made(tmp_path, entry("failed"))
    assert is_made(tmp_path, entry(), "evolve") and not is_made(tmp_path, entry(), "evaluate")
    assert older_with(tmp_path, newer, "evolve") == " (an older suite of this name has it: try-0123abcd)"
    assert not older_with(tmp_path, newer, "evaluate") and not older_with(tmp_path, SUITE, "evolve")


def test_a_damaged_entry_names_its_file(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, {})
    for text, fault in (("{", "damaged"), ("{}", "not an index entry")):
        (SUITE.index(tmp_path) / "ecology-s2.evolve.json").write_text(text)
        with pytest.raises(
            StageError, match=rf"ecology-s2\.evolve\.json: {fault}.*; remove it and run the suite again"
        ):
            list(entries(tmp_path, SUITE))


@pytest.mark.parametrize("name, read", [("suite", read_suite), ("plan", waiting), ("packs", read_packs)])
def test_a_damaged_file_of_the_index_names_itself(tmp_path: Path, name: str, read: Any) -> None:
    write_suite(tmp_path, SUITE, {})
    (SUITE.index(tmp_path) / f"{name}.json").write_text("")
    with pytest.raises(StageError, match=rf"{name}\.json: damaged .*; remove it and run the suite again"):
        read(tmp_path, SUITE)
