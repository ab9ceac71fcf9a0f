"""Tables of benchmarks survive a rebuild of the store."""

from pathlib import Path

from evolora_core.store import query, rebuild, record_benchmark, store_path


def test_a_benchmark_is_kept_in_a_file_and_in_the_store(tmp_path: Path) -> None:
    rows = [{"measure": "speed", "ours": 3.0, "other": 2.0, "ratio": 1.5, "unit": "1/s", "note": ""}]
    file = record_benchmark(tmp_path, "toy", [*rows, rows[0] | {"other": None, "ratio": None}])
    found = query(tmp_path, "SELECT * FROM benchmarks ORDER BY ALL")
    assert [(row["bench"], row["measure"], row["ratio"]) for row in found.records()] == [
        ("toy", "speed", 1.5),
        ("toy", "speed", None),
    ]
    assert file.parent == tmp_path / "bench"
    store_path(tmp_path).unlink()
    rebuild(tmp_path)
    assert query(tmp_path, "SELECT * FROM benchmarks ORDER BY ALL") == found
