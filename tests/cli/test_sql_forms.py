"""`evolora sql` for other programs: every digit of whole numbers, and files that are whole or not there."""

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from evolora_core.errors import StoreError
from evolora_core.store import rebuild
from flows.cli import main
from flows.cli.sql import _write

WIDE = 12345678901234567890123  # as sums of FLOPs are
EXACT = 9007199254740993  # no float is equal
ROWS = f"SELECT {WIDE}::HUGEINT AS wide, {EXACT} AS exact, 'a,b' AS text UNION ALL SELECT NULL, NULL, NULL ORDER BY 1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a schema and no rows."""
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    rebuild(tmp_path / "home")
    return tmp_path


def code(*words: str) -> Any:
    """The exit code of `evolora sql`."""
    with pytest.raises(SystemExit) as end:
        main(["sql", *words])
    return end.value.code


@pytest.mark.parametrize("form", ["csv", "md", "latex"])
def test_whole_numbers_are_printed_with_all_digits(home: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code(ROWS, "--format", form) == 0
    said = capsys.readouterr().out
    assert str(WIDE) in said and str(EXACT) in said
    if form == "csv":
        rows = list(csv.reader(io.StringIO(said)))
        assert rows == [["wide", "exact", "text"], [str(WIDE), str(EXACT), "a,b"], ["", "", ""]]


def test_a_parquet_file_has_all_digits(home: Path) -> None:
    assert code(ROWS, "--format", "parquet", "--out", str(home / "a.parquet")) == 0
    first, none = pq.read_table(home / "a.parquet").to_pylist()
    assert (int(first["wide"]), first["exact"], none["exact"]) == (WIDE, EXACT, None)


def test_two_forms_at_once_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code(ROWS, "--json", "--format", "parquet", "--out", str(home / "a.parquet")) == 1
    assert "--json: prints, and --format parquet writes a file; take one of them" in capsys.readouterr().err
    assert [path.name for path in home.iterdir()] == ["home"]


@pytest.mark.parametrize(
    ("query", "option", "said"),
    [
        (
            "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range + b.range = 7",
            "--seconds=0.1",
            "0.1 s",
        ),
        ("SELECT list(range)[1] FROM range(50000000)", "--memory=64", "more memory than it may"),
    ],
)
def test_a_query_without_end_is_ended(
    home: Path, capsys: pytest.CaptureFixture[str], query: str, option: str, said: str
) -> None:
    assert code(query, option) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ") and said in line and option.partition("=")[0] in line


def test_what_has_no_form_in_parquet_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("SELECT interval '3 days' AS i", "--format", "parquet", "--out", str(home / "a.parquet")) == 1
    assert "no form in Parquet" in capsys.readouterr().err
    assert [path.name for path in home.iterdir()] == ["home"]


def test_a_query_that_is_ended_while_it_writes_leaves_no_file(tmp_path: Path) -> None:
    mine = tmp_path / "a.parquet.unfinished"
    mine.write_text("a file of somebody else")

    def ask(*, tell: Any, **_: Any) -> str:
        tell.args[1].write_text("PAR1")
        raise StoreError("SQL: took more than 20 s")

    with pytest.raises(StoreError):
        _write(ask, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == [mine] and mine.read_text() == "a file of somebody else"
