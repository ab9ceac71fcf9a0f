"""The deployment `benchmark`: what it measures is kept, and a benchmark that fails does not stop the others."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import command

from evolora_core.errors import StageError
from evolora_core.store import query
from flows.benchmark import BENCHES, NIGHT, WORDS, benchmark
from flows.cli import app

ROOT = Path(__file__).resolve().parents[2]
QUICK = (
    "engine --population 2 --rows 2 --rank 2 --prompt-tokens 12 --new-tokens 2 --repeats 1 --threads 1 --only generate"
)


def test_what_can_be_scheduled_are_the_benchmarks_of_the_command_line() -> None:
    commands = {name for name in app["bench"] if not name.startswith("-")}
    assert {*BENCHES} == commands - {"history"}
    assert all(re.match(WORDS, words) for words in NIGHT)
    assert not re.match(WORDS, "engines") and not re.match(WORDS, "history")


@pytest.mark.usefixtures("home")
def test_a_history_of_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command(capsys, "bench", "history")
    assert code == 0
    assert out == "" and err.strip() == "nothing was measured yet; `evolora bench` lists the benchmarks"


def test_every_deployment_is_also_one_of_work_pools() -> None:
    from flows.serve import FLOWS, NIGHTLY

    written: Any = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    assert [own["name"] for own in written] == [flow.name for flow in FLOWS]
    schedules = {own["name"]: own["schedules"] for own in written if "schedules" in own}
    assert {name: own["cron"] for name, (own,) in schedules.items()} == NIGHTLY
    assert not any(own["active"] for (own,) in schedules.values())


@pytest.mark.usefixtures("prefect_server")
def test_one_that_fails_does_not_stop_the_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.orchestration import get_client

    monkeypatch.chdir(ROOT)
    with pytest.raises(StageError, match=r"bench attention --size nix: .*'nix' is none of"):
        benchmark(["attention --size nix", QUICK])
    (kept,) = query(home, "SELECT bench, ratio, torch, cores > 0 FROM benchmark_history").rows
    assert kept[0] == "engine" and kept[1] > 0 and kept[2] and kept[3]
    with get_client(sync_client=True) as client:
        pages = [own for own in client.read_artifacts() if own.key == "benchmark-history"]
    assert len(pages) == 1 and f"| {kept[1]:.3f} |" in str(pages[0].data)
