"""A disk that is full, or nearly: the limit on a file's size stands for it, as writes fail in the same way."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from example_suite import write_suite

from evolora_core.store import query, rebuild, store_path
from evolora_core.store.connection import held

pytest.importorskip("resource")
SUITE = "example-0a1b2c3d"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _on_full_disk(kilobytes: int, code: str, home: Path) -> str:
    """Run code in a process that can make no file longer than that; what it printed."""
    limited = f"""
        import resource, signal
        from pathlib import Path
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({kilobytes} * 1024,) * 2)
        from evolora_core.store import connection, rebuild
        home = Path({str(home)!r})
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(limited) + textwrap.dedent(code)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("kilobytes", [600, 2000], ids=["no room for the log", "room for the log alone"])
def test_a_rebuild_without_room_fails_and_leaves_the_store_as_it_was(home: Path, kilobytes: int) -> None:
    write_suite(home, SUITE, items=8)
    rebuild(home)
    before = query(home, "SELECT count(*) FROM stages").rows
    said = _on_full_disk(
        kilobytes,
        """
        try:
            rebuild(home)
        except connection.Unwritable as error:
            print(error)
        """,
        home,
    )
    assert "is the disk full?" in said, said
    assert query(home, "SELECT count(*) FROM stages").rows == before


@pytest.mark.parametrize(
    ("kilobytes", "rows"), [(100, 20_000), (5, 1)], ids=["no room for the rows", "no room for a file"]
)
def test_rows_without_room_are_told_as_a_full_disk(home: Path, kilobytes: int, rows: int) -> None:
    home.mkdir()
    said = _on_full_disk(
        kilobytes,
        f"""
        from evolora_core.store.transaction import transaction
        try:
            with connection.opened(home / "a.duckdb") as opened, transaction(opened):
                opened.execute("CREATE TABLE t AS SELECT range, range::VARCHAR FROM range({rows})")
        except connection.Unwritable as error:
            print(error)
        """,
        home,
    )
    assert "Could not write file" in said and "is the disk full?" in said and "rebuild" not in said, said


def test_whoever_records_while_a_lost_store_is_rebuilt_waits_for_it(home: Path) -> None:
    path = store_path(home)
    path.parent.mkdir(parents=True)
    with pytest.raises(OSError), held(path):
        raise OSError
    assert not path.exists()  # what failed leaves no empty one
    with held(path):
        said = _on_full_disk(
            10**6,
            """
            try:
                with connection.opened(connection.store_path(home), wait=0):
                    pass
            except connection.Locked as error:
                print(error)
            """,
            home,
        )
    assert "held by process" in said, said
