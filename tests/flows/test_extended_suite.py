"""A finished ecology is extended, not repeated: N generations and then more are the same as all of them at once."""

import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from evolora_core.engine.run_index import entries, suites

ROOT = Path(__file__).resolve().parents[2]
ONE = [
    "processes=1", "seeds=[0]", "conditions=[ecology]", "sft.trials=[]", "evaluation.comparisons=[]",
    "ecology.trials=[]",
]  # fmt: skip
WALL_CLOCK = {"seconds"}


def evolve(home: Path, generations: int) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    """Folder and tables of the ecology of a suite of so many generations."""
    from flows.paper_suite import paper_suite

    changes = [*ONE, f"ecology.generations={generations}"]
    paper_suite(str(ROOT / "configs" / "suites" / "tiny.yaml"), changes, only=["ecology.s0.evolve"])
    (entry,) = [entry for entry in entries(home, suites(home)[-1]) if entry.stage == "evolve"]
    folder = home / entry.folder
    tables = {}
    for file in sorted(folder.glob("*.parquet")):
        rows = pq.read_table(file).to_pylist()
        tables[file.stem] = [{key: row[key] for key in row.keys() - WALL_CLOCK} for row in rows]
    return folder, tables


@pytest.mark.usefixtures("prefect_server")
def test_extending_equals_running_at_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("evolora_core.searches.adapters.ecology.evolve")
    logger.addHandler(caplog.handler)  # Prefect may have cut what leads to the root's
    short, _ = evolve(home, 1)
    longer, extended = evolve(home, 2)
    logger.removeHandler(caplog.handler)
    assert "resumed at generation 1" in caplog.text
    assert short != longer
    assert short.exists()
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "other"))
    _, straight = evolve(tmp_path / "other", 2)
    assert extended.keys() == straight.keys() >= {"episodes", "ledger", "organelles", "generations", "compute"}
    for name, rows in straight.items():
        assert extended[name] == rows, name
