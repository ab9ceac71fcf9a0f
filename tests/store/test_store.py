"""Recording, rebuilding and asking: what a store promises when things are repeated, cut short, damaged or locked."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest
from example_suite import part, suite_id, write_stage, write_suite

from evolora_core.engine.run_index import write_suite as write_suite_file
from evolora_core.errors import StageError, StoreError
from evolora_core.store import Slice, connection, kept_open, query, rebuild, record, schema, store_path
from evolora_core.store.connection import Locked, opened
from evolora_core.store.owners import Owner, owners

SUITE = "example-0a1b2c3d"


# how tables begin that the adapter search does not fill
OTHERS = "number_|merge_|candidate|landscape|regrets|law_|attention_|proposer_"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose suite is recorded; tests only read it."""
    home = tmp_path_factory.mktemp("recorded")
    write_suite(home, SUITE, items=48)
    rebuild(home)
    return home


def _dump(home: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in a fixed order."""
    tables = [*schema.tables(), "stages", "suites"]
    with kept_open(home):
        return {t: query(home, f"SELECT * FROM data.{t} ORDER BY ALL").rows for t in tables}


def _steps(home: Path, n: int) -> Slice:
    rows = [{"step": i, "loss": 1.0, "learning_rate": 1e-3, "tokens": i, "flops": i} for i in range(n)]
    return write_stage(home, part(SUITE, "sft", 0, "sft"), {"sft_steps": rows})


def test_recording_again_changes_nothing(recorded: Path) -> None:
    before = _dump(recorded)
    for stage in write_suite(recorded, SUITE, items=48):
        if not stage.seed:  # of one seed, which has every table
            record(recorded, stage)
    assert _dump(recorded) == before
    others = {"tuning", "contests", "inheritance", "shots", "expert_rounds", "es_steps", "grpo_steps", "variants"}
    others |= {t for t in before if re.match(OTHERS, t)}
    assert {t for t, rows in before.items() if not rows} == others


def test_a_shorter_slice_replaces_the_longer_one_and_leaves_others_alone(home: Path) -> None:
    record(home, _steps(home, 9))
    other = write_stage(home, part(SUITE, "sft", 1, "sft"), {"sft_steps": [{"step": 0, "loss": 2.0}]})
    record(home, other)
    assert record(home, _steps(home, 4)) == {"sft_steps": 4}
    assert query(home, "SELECT seed, count(*) FROM sft_steps GROUP BY ALL ORDER BY ALL").rows == [(0, 4), (1, 1)]
    assert query(home, "SELECT learning_rate FROM sft_steps WHERE seed = 1").rows == [(None,)]


def test_a_killed_writer_leaves_the_previous_rows(home: Path) -> None:
    record(home, _steps(home, 9))
    stage = _steps(home, 4)
    script = f"""
        import importlib, time
        from pathlib import Path
        from evolora_core.store import Slice
        writer = importlib.import_module("evolora_core.store.record")
        insert_stage = writer._insert_stage
        def stall(connection, artefact):
            insert_stage(connection, artefact)
            print("deleted and inserted", flush=True)
            time.sleep(60)
        writer._insert_stage = stall
        folder = Path({str(stage.folder)!r})
        writer.record(Path({str(home)!r}), Slice({SUITE!r}, {stage.run_id!r}, "sft", 0, "sft", folder))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "deleted and inserted\n"
        writer.send_signal(signal.SIGKILL)
    assert query(home, "SELECT count(*) FROM sft_steps").rows == [(9,)]
    assert query(home, "SELECT count(*) FROM stages").rows == [(1,)]


def test_a_failed_load_changes_nothing_and_names_the_file(home: Path) -> None:
    record(home, _steps(home, 9))
    before = _dump(home)
    bad = write_stage(home, part(SUITE, "sft", 0, "sft"), {"sft_steps": [{"step": 1, "los": 0.5}]})
    with pytest.raises(StageError, match=r"sft_steps.parquet: does not fit the table `sft_steps` .*los"):
        record(home, bad)
    assert _dump(home) == before
    unknown = write_stage(home, part(SUITE, "sft", 1, "sft"), {"sft_stepz": [{"step": 1}]})
    with pytest.raises(StageError, match="the store has no table `sft_stepz`"):
        record(home, unknown)


def test_damaged_missing_and_unfinished_artefacts_are_refused(home: Path) -> None:
    stage = _steps(home, 3)
    file = home / stage.folder / "sft_steps.parquet"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(StageError, match="is not the file of its manifest; run the suite again"):
        record(home, stage)
    file.unlink()
    with pytest.raises(StageError, match="named in the manifest and gone"):
        record(home, stage)
    (file.parent / "manifest.json").unlink()
    with pytest.raises(StageError, match="not finished"):
        record(home, stage)
    assert not store_path(home).exists()


def test_evaluations_without_a_headline_arm_are_refused(home: Path) -> None:
    row = {"split": "retention", "task_id": "1", "family": "math", "depth": "short", "arm": "other", "correct": True}
    stage = write_stage(home, part(SUITE, "sft", 0, "evaluate"), {"evaluations": [row]})
    with pytest.raises(StageError, match=r"no arm `sft`, only other"):
        record(home, stage)
    assert query(home, "SELECT count(*) FROM evaluations").rows == [(0,)]


def test_rebuild_makes_the_same_store_and_reports_what_is_gone(recorded: Path, home: Path) -> None:
    stages = write_suite(home, SUITE, items=48)
    for file in sorted((home / "runs").glob("*/index/*/sft-s2.sft.json")):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"state": "failed"}))
    store_path(home).write_bytes(b"this was a database once" * 100)
    assert len(rebuild(home).recorded) == len(stages) - 1
    for file in sorted((home / "runs").glob("*/index/*/sft-s2.sft.json")):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"state": "cached"}))
    assert rebuild(home).left_out == []
    assert _dump(home) == _dump(recorded)
    (home / stages[0].folder / "manifest.json").unlink()
    result = rebuild(home)
    assert [(gone, "not finished" in why) for gone, why in result.left_out] == [(stages[0], True)]
    assert not list(home.glob("*.rebuild*"))
    assert result.before is not None  # the rows of what is gone are in it alone
    again = rebuild(home)
    store_path(home).unlink()  # as a kill between two renames leaves it
    assert again.before == result.before.with_name("evolora.duckdb.before-2") and rebuild(home).before is None
    result.before.replace(store_path(home))
    assert _dump(home) == _dump(recorded)


@pytest.mark.parametrize("start", [8192, 12288 + 2 * 262144])  # a header; the blocks after those read at opening
def test_flipped_bytes_are_told_in_one_line_and_can_be_rebuilt(recorded: Path, home: Path, start: int) -> None:
    shutil.copytree(recorded, home)
    file = store_path(home)
    content = bytearray(file.read_bytes())
    for block in range(start, len(content), 262144):
        content[block + 100] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"Corrupt database file.*`evolora store rebuild` makes") as error:
        for table in schema.tables():
            query(home, f"SELECT * FROM data.{table}")
    assert "\n" not in str(error.value)
    assert rebuild(home).left_out == []
    assert _dump(home) == _dump(recorded)


def test_a_path_with_a_word_like_lock_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    home = tmp_path / "block"
    rebuild(home)
    store_path(home).write_bytes(b"this was a database once" * 100)
    with pytest.raises(StoreError, match="cannot be opened"), opened(store_path(home), wait=0):
        pass


def test_a_newer_store_is_refused_in_one_line_and_can_be_rebuilt(home: Path) -> None:
    stage = _steps(home, 3)
    config = {"name": "example", "host": "nano", "seeds": [0], "conditions": ["sft"]}
    write_suite_file(home, suite_id(SUITE), config)
    record(home, stage)
    with duckdb.connect(str(store_path(home))) as raw:
        raw.execute("UPDATE schema_version SET version = 99")
    for act in (lambda: query(home, "SELECT 1"), lambda: record(home, stage)):
        with pytest.raises(
            StoreError, match=r"its schema 99 is newer than this Evolora's \d+; use that newer"
        ) as error:
            act()
        assert "\n" not in str(error.value)
    rebuild(home)
    assert query(home, "SELECT count(*) FROM sft_steps").rows == [(3,)]
    with duckdb.connect(str(store_path(home))) as raw:
        raw.execute("UPDATE schema_version SET version = 99 WHERE owner = 'adapters'")
    with pytest.raises(StoreError, match="its schema 99 of adapters is newer than this Evolora's 6; use that newer"):
        query(home, "SELECT 1")


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of SQL of one search more."""
    folder = tmp_path / "sql"
    folder.mkdir()
    with_it = (*owners(), Owner("another", folder))
    monkeypatch.setattr(schema, "owners", lambda: with_it)
    return folder


def test_a_migration_is_applied_once_and_keeps_the_rows(home: Path, another: Path) -> None:
    record(home, _steps(home, 3))
    (another / "0001_note.sql").write_text("ALTER TABLE data.sft_steps ADD COLUMN note VARCHAR DEFAULT 'old'")
    assert query(home, "SELECT DISTINCT note FROM data.sft_steps").rows == [("old",)]
    mine = "SELECT version, count(*) OVER () FROM schema_version WHERE owner = 'another'"
    assert query(home, mine).rows == [(1, 1)]
    (another / "0002_bad.sql").write_text("CREATE TABLE x (a BIGINT); SELEC")
    with pytest.raises(
        StoreError, match=r"0002_bad.sql: cannot be applied to the store \(Parser Error.*SELEC"
    ) as error:
        query(home, "SELECT 1")
    assert "\n" not in str(error.value)
    (another / "0002_bad.sql").unlink()
    assert query(home, "SELECT count(*) FROM data.sft_steps").rows == [(3,)]
    (another / "0003_late.sql").write_text("SELECT 1")
    with pytest.raises(StoreError, match="numbers must run 0001, 0002, … without gaps"):
        query(home, "SELECT 1")


def test_changed_views_replace_the_old_ones(home: Path, another: Path) -> None:
    record(home, _steps(home, 3))
    (another / "views.sql").write_text("CREATE OR REPLACE VIEW tuning AS SELECT 7 AS seven")
    assert query(home, "FROM tuning") == (["seven"], [(7,)])


def test_a_search_that_is_not_installed_keeps_its_tables(
    home: Path, another: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (another / "0001_t.sql").write_text("CREATE TABLE data.theirs (run_id VARCHAR, stage VARCHAR, a BIGINT)")
    (another / "views.sql").write_text("CREATE OR REPLACE VIEW theirs AS FROM data.theirs")
    record(home, _steps(home, 3))
    with connection.opened(store_path(home)) as raw:
        raw.execute("INSERT INTO data.theirs VALUES ('r', 's', 7)")
    monkeypatch.setattr(schema, "owners", owners)
    record(home, _steps(home, 4))
    assert query(home, "SELECT a FROM theirs").rows == [(7,)]
    assert query(home, "SELECT version FROM schema_version WHERE owner = 'another'").rows == [(1,)]


def test_a_locked_store_is_waited_for_and_its_holder_named(home: Path) -> None:
    record(home, _steps(home, 3))
    script = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(store_path(home))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None and holder.stdout.readline() == "open\n"
        with (
            pytest.raises(StoreError, match=rf"held by process {holder.pid} \(python.*\) for 0 s"),
            connection.opened(store_path(home), read_only=True, wait=0.2),
        ):
            pass
        let_go = threading.Timer(0.5, holder.stdin.close)
        let_go.start()
        assert query(home, "SELECT count(*) FROM sft_steps").rows == [(3,)]
        assert let_go.finished.is_set()


def test_a_connection_of_this_process_is_waited_for_too_and_whoever_waits_says_so_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "SILENT", 0.0)
    record(home, _steps(home, 3))
    holder = f"held by this process (PID {os.getpid()})"
    with (
        connection.opened(store_path(home)),
        pytest.raises(StoreError, match=re.escape(holder)),
        connection.opened(store_path(home), read_only=True, wait=0.9),
    ):
        pass
    assert caplog.messages == [f"{store_path(home)}: {holder}; waiting for it, up to 1 s"]


def test_a_folder_above_that_looks_like_a_column_is_none(tmp_path: Path) -> None:
    home = tmp_path / "trial=3" / "[home]"
    record(home, _steps(home, 3))
    assert query(home, "SELECT count(*) FROM sft_steps").rows == [(3,)]


def test_no_store_and_no_place_for_one_are_told_in_one_line(home: Path) -> None:
    with pytest.raises(StoreError, match=r"no store yet; `evolora run SUITE.yaml` makes one"):
        query(home, "SELECT 1")
    with (
        pytest.raises(StoreError, match="check that EVOLORA_HOME exists and is writable"),
        connection.opened(Path("/proc/nowhere/evolora.duckdb")),
    ):
        pass


def test_queries_can_write_nothing(recorded: Path, tmp_path: Path) -> None:
    for sql in (
        "DELETE FROM data.episodes",
        f"COPY data.episodes TO '{tmp_path}/x.csv'",
        f"ATTACH '{tmp_path}/x.duckdb'",
        "INSTALL icu",
    ):
        with pytest.raises(StoreError, match="^SQL: "):
            query(recorded, sql)
    with pytest.raises(StoreError, match=r'^SQL: .*episods does not exist! Did you mean "episodes"\?; .*SHOW TABLES'):
        query(recorded, "SELECT * FROM episods")
    with pytest.raises(StoreError, match=r'`evolora sql "DESCRIBE data\.episodes"` shows the names'):
        query(recorded, "SELECT nope FROM data.episodes WHERE seed = 0")
    assert query(recorded, "SELECT ? + 1 AS two", [1]).records() == [{"two": 2}]
    twice = query(recorded, "SELECT 1 AS acc, 2 AS acc, 3 AS n, 4 AS acc").records()
    assert twice == [{"acc": 1, "acc_1": 2, "n": 3, "acc_2": 4}]
    taken = query(recorded, "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a").records()
    assert taken == [{"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}]
    assert list(tmp_path.iterdir()) == []


def test_what_a_signal_interrupts_ends_as_an_interrupt(recorded: Path) -> None:
    with pytest.raises(KeyboardInterrupt), opened(store_path(recorded), read_only=True):
        raise RuntimeError("Query interrupted")  # what DuckDB raises then
    with pytest.raises(RuntimeError, match="another"), opened(store_path(recorded), read_only=True):
        raise RuntimeError("another")


def test_a_store_that_is_kept_open_is_asked_without_being_opened_again(recorded: Path) -> None:
    with kept_open(recorded):
        with pytest.raises(Locked, match="this process"), opened(store_path(recorded), wait=0):
            pass
        assert query(recorded, "SELECT count(*) > 0 FROM stages").rows == [(True,)]
    with opened(store_path(recorded), wait=0):
        pass
