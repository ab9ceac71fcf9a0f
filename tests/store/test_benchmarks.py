"""Tables of benchmarks survive a rebuild of the store, and their ratios have a history."""

import json
from pathlib import Path

import pytest

from evolora_core.report.benchmarks import history_page, history_rows
from evolora_core.store import benchmarks, query, rebuild, record_benchmark, store_path
from evolora_core.store.connection import Locked


def test_a_benchmark_is_kept_in_a_file_and_in_the_store(tmp_path: Path) -> None:
    rows = [{"measure": "speed", "ours": 3.0, "other": 2.0, "ratio": 1.5, "unit": "1/s", "note": ""}]
    machine = {"cores": 2, "processor": "abacus", "torch": "2.9", "version": "1", "code": "0a1b2c3d+"}
    file = record_benchmark(tmp_path, "toy", [*rows, rows[0] | {"other": None, "ratio": None}], machine)
    found = query(tmp_path, "SELECT * FROM benchmarks ORDER BY ALL")
    assert [(row["bench"], row["measure"], row["ratio"]) for row in found.records()] == [
        ("toy", "speed", 1.5),
        ("toy", "speed", None),
    ]
    assert {tuple(row[name] for name in machine) for row in found.records()} == {tuple(machine.values())}
    assert file.parent == tmp_path / "bench"
    store_path(tmp_path).unlink()
    rebuild(tmp_path)
    assert query(tmp_path, "SELECT * FROM benchmarks ORDER BY ALL") == found


def test_what_a_held_store_did_not_take_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(*_: object) -> None:
        raise Locked("held by process 1")

    row = {"measure": "speed", "ours": 1.0, "other": 2.0, "ratio": 0.5, "unit": "s", "note": ""}
    with monkeypatch.context() as patch:
        patch.setattr(benchmarks, "opened", held)
        with pytest.raises(
            Locked, match=r"held by process 1; .*bench/toy-.*\.json, and `evolora store rebuild` loads it"
        ):
            record_benchmark(tmp_path, "toy", [row], {})
    rebuild(tmp_path)
    assert query(tmp_path, "SELECT measure, ratio FROM benchmarks").rows == [("speed", 0.5)]


def write(home: Path, measured: str, ratio: float | None, note: str = "one thread", **machine: object) -> None:
    """A file of a benchmark as it lies in EVOLORA_HOME/bench."""
    row = {"measure": "speed", "ours": 1.0, "other": ratio and 1 / ratio, "ratio": ratio, "unit": "1/s", "note": note}
    document = {"bench": "toy", "measured": measured, "rows": [row], "machine": machine}
    (home / "bench").mkdir(exist_ok=True)
    (home / "bench" / f"toy-{measured}.json").write_text(json.dumps(document))


def test_a_damaged_file_is_named_and_stops_no_rebuild(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    fast = '{"bench": "x", "measured": "y", "machine": {}, "rows": [{"measure": "speed", "ours": "fast"}]}'
    texts = {"empty": "", "list": "[]", "rows": '{"bench": "x", "measured": "y", "rows": [1]}'}
    for name, text in (texts | {"text": fast}).items():
        (tmp_path / "bench" / f"{name}.json").write_text(text)
    left_out = rebuild(tmp_path).left_out
    assert [part.stage for part, _ in left_out] == ["empty.json", "list.json", "rows.json", "text.json"]
    assert all("damaged" in why and "delete it" in why for _, why in left_out)
    assert query(tmp_path, "SELECT count(*) FROM benchmarks").rows == [(0,)]


def test_the_history_compares_ratios_of_the_same_settings(tmp_path: Path) -> None:
    assert history_rows(tmp_path) == [] and "Nothing was measured" in history_page(tmp_path)
    write(tmp_path, "20260101T080000Z", 2.0)
    write(tmp_path, "20260102T080000Z", 8.0, note="two threads", cores=2)
    write(tmp_path, "20260103T080000Z", None)  # seconds of one side alone
    write(tmp_path, "20260104T080000Z", 3.0, cores=4, torch="2.9")
    rebuild(tmp_path)
    shown = [
        (row["note"], row["ratio"], row["before"], row["change"], row["cores"], row["torch"])
        for row in history_rows(tmp_path)
    ]
    assert shown == [
        ("one thread", 2.0, None, None, None, None),
        ("one thread", 3.0, 2.0, 0.5, 4, "2.9"),
        ("two threads", 8.0, None, None, 2, None),
    ]
    assert [(row["ratio"], row["before"]) for row in history_rows(tmp_path, "toy", last=1)] == [(3.0, 2.0), (8.0, None)]
    assert history_rows(tmp_path, "another") == []
    page = history_page(tmp_path)
    assert page.count("## toy") == 2 and "2026-01-04 08:00" in page and "+50.0%" in page
