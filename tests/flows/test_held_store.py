"""Others at the store while a suite runs. A notebook keeps it open: stages go on, and are recorded when it is free.
Another run of the suite records the same stages.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from example_suite import suite_id, write_suite

import flows._suite
from evolora_core.engine.artifacts import read_manifest
from evolora_core.engine.run_index import entries, suites
from evolora_core.engine.stage import JUDGED, StageResult
from evolora_core.store import connection, query, rebuild, store_path
from evolora_core.store.connection import opened
from flows.cli import main

TINY = Path(__file__).resolve().parents[2] / "configs" / "suites" / "tiny.yaml"
SETTINGS = ["processes=1", "conditions=[frozen]", "seeds=[0,1]", "evaluation.comparisons=[]"]
HOLD = (
    "import duckdb, sys; own = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == 'reads'); "
    "print('held', flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("how", ["reads", "writes"])  # a suite that starts cannot look into the second at all
def test_stages_go_on_while_somebody_holds_the_store(
    prefect_server: str, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    waits = connection._wait_for
    monkeypatch.setattr(connection, "_wait_for", lambda path, only, wait: waits(path, only, min(wait, 0.5)))
    monkeypatch.setattr(flows._suite, "PATIENCE", 0.2)
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    with opened(store_path(home)):
        pass
    notebook = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store_path(home)), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert notebook.stdin and notebook.stdout and notebook.stdout.readline() == b"held\n"
    judged: list[int] = []

    def close_when_all_is_judged() -> None:
        while len(judged) < 2 and notebook.stdin:
            time.sleep(0.1)
            own = [entry for suite in suites(home) for entry in entries(home, suite)]
            judged[:] = [entry.seed for entry in own if entry.stage == "evaluate" and entry.state == "done"]
        notebook.communicate()

    closing = threading.Thread(target=close_when_all_is_judged, daemon=True)
    closing.start()
    with pytest.raises(SystemExit) as end:
        main(["run", str(TINY), *(word for one in SETTINGS for word in ("--set", one))])
    closing.join(60)
    assert end.value.code == 0 and sorted(judged) == [0, 1]
    held = [line for line in caplog.messages if "stages go on, and what they leave is recorded when it is free" in line]
    assert len(held) == 1 and f"held by process {notebook.pid}" in held[0]
    stages = {(seed, stage) for seed, stage in query(home, "SELECT seed, stage FROM stages WHERE seed >= 0").rows}
    assert {(0, "evaluate"), (1, "evaluate"), (0, "datasets"), (1, "datasets")} <= stages
    assert query(home, "SELECT count(*) FROM paper_table").rows == [(1,)]
    assert (home.parent / "packs" / "tiny" / "README.md").exists()


@pytest.mark.parametrize("another", [False, True])  # whether the artefact is another than the one in the store
def test_a_comparison_that_another_run_recorded_meanwhile_stands(home: Path, another: bool) -> None:
    parts = write_suite(home, seeds=(0,), items=12)
    judged = next(part for part in parts if part.stage == JUDGED)
    with opened(store_path(home)):
        pass
    records = flows._suite.Records(suite_id(judged.suite), [])
    assert records._recorded == {}  # read before the other run
    rebuild(home)
    manifest = read_manifest(home / judged.folder) or {}
    if another:
        (home / judged.folder / "manifest.json").write_text(json.dumps(manifest | {"identity": "other"}))
    facts = {name: manifest[name] for name in ("identity", "seconds", "flops", "summary")}
    own = {"stage": JUDGED, "condition": judged.condition, "seed": judged.seed, "folder": str(judged.folder)}
    records._forget_later(StageResult.model_validate(own | facts))
    there = flows._suite.recorded(records.suite)
    assert ("suite.s0.compare" in there) != another and len(there) == len(parts) - another
