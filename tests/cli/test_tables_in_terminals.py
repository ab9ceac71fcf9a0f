"""Tables as people read them: whole in a pipe, and in a terminal not wider than that."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import command

from evolora_core.engine.run_index import Entry, State, SuiteId, begin, write_entry
from flows.cli._app import shown

SUITE = SuiteId("try", "0123abcd")
ROWS: list[dict[str, Any]] = [
    {"name": "one", "value": 1234.5, "note": "a sentence of several words that says what the value beside it is"},
    {"name": "two-of-them", "value": None, "note": "short"},
]


def words(text: str) -> list[str]:
    return sorted(text.split())


def test_a_table_fits_the_terminal_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = shown(ROWS, False)  # of a pipe
    assert len(whole.splitlines()) == 1 + len(ROWS)
    monkeypatch.setenv("COLUMNS", "50")
    fitted = shown(ROWS, False)
    assert max(map(len, fitted.splitlines())) <= 50 < max(map(len, whole.splitlines()))
    assert words(fitted) == words(whole)  # no word is broken, and no other column gives way
    assert [line.split()[0] for line in fitted.splitlines() if line[0] != " "] == ["name", "one", "two-of-them"]
    assert json.loads(shown(ROWS, True)) == ROWS


def test_a_word_that_does_not_fit_is_broken_and_a_table_of_many_columns_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    path = "/a/folder/far/below/another/one/" + 3 * "and-below-that-one/"
    broken = shown([{"folder": path, "blank": " " * 60, "n": 1}], False)
    assert max(map(len, broken.splitlines())) <= 50
    assert "".join(line.split()[0] for line in broken.splitlines()[1:]) == path
    many = {f"column{number}": number for number in range(9)}
    assert len(shown([many, many], False).splitlines()) == 3


def entered(home: Path, condition: str, stage: str, state: State, **facts: Any) -> None:
    run = SUITE.run_id(condition, 2456)
    write_entry(home, SUITE, Entry(str(SUITE), run, condition, 2456, stage, "runs/try/x", "f" * 16, state, **facts))


def test_status_fits_a_terminal_and_says_reasons_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    begin(tmp_path, SUITE, {"name": "try"}, tmp_path / "packs")
    reason = "StageError: a reason of so many words that no column of a table of eighty characters has room for it"
    times = {"started": "2026-01-02T03:04:05+00:00", "finished": "2026-01-02T09:08:07+00:00"}
    entered(tmp_path, "ecology-quarter", "calibrate", "failed", reason=reason, **times)
    entered(tmp_path, "few-labels", "evaluate", "failed", seconds=21843.271, flops=3 * 10**16, **times)
    code, out, _ = command(capsys, "status", "try")
    table, below = out.split("\n\n")
    assert code == 0 and max(map(len, table.splitlines())) <= 80
    assert [line.split() for line in table.splitlines()[-1:]] == [
        ["few-labels.s2456", "evaluate", "failed", "21843", "3e+16", "01-02", "09:08"]
    ]
    assert below == f"{SUITE}.ecology-quarter.s2456.calibrate: {reason}\n"  # as `evolora retry` takes it
    rows = {row["stage"]: row for row in json.loads(command(capsys, "status", "try", "--json")[1])}
    assert rows["evaluate"]["seconds"] == 21843.271 and rows["evaluate"]["finished"] == times["finished"]
    assert rows["calibrate"]["run"] == f"{SUITE}.ecology-quarter.s2456" and rows["calibrate"]["reason"] == reason


def test_the_doctor_says_below_the_table_what_mends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = command(capsys, "doctor")
    table, mends = out.split("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    rows = json.loads(command(capsys, "doctor", "--json")[1])
    assert mends.splitlines()[1:] == [f"{row['what']}: {row['mend']}" for row in rows if row["mend"]]
    assert any(row["mend"] == "evolora run configs/suites/quickstart.yaml" for row in rows)  # there is no store
