"""One of the faults of `evolora bench faults`, on a suite of some seconds: a real process, killed for real."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evolora_core.searches.adapters.experiment import load_suite
from flows.bench.faults import measure
from flows.bench.victim import Victim, end_all

TINY = Path(__file__).parents[2] / "configs" / "suites" / "tiny.yaml"
SMALL = [
    "processes=1", "seeds=[0]", "conditions=[frozen, ecology]", "ecology.trials=[]", "sft.trials=[]",
    "evaluation.comparisons=[]",
]  # fmt: skip
FAULTS = ["truncated checkpoint"]  # the process is killed too; `evolora bench faults` has all


def test_nothing_runs_on_after_an_interrupted_benchmark(tmp_path: Path) -> None:
    victim = Victim.make(tmp_path, load_suite(TINY, SMALL))
    process = victim.start()
    assert process.poll() is None
    end_all()
    assert process.returncode == -signal.SIGKILL


def test_a_victim_finds_the_relative_paths_of_its_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    victim = Victim.make(tmp_path / "victim", load_suite(TINY, SMALL))
    began: dict[str, Any] = {}

    def begin(words: list[str], **options: Any) -> SimpleNamespace:
        began.update(options, words=words)
        return SimpleNamespace(pid=0, poll=lambda: 0)

    monkeypatch.setattr("flows.bench.victim.subprocess.Popen", begin)
    victim.start()
    assert "cwd" not in began  # that of the caller
    assert began["words"][-4:] == [
        "run",
        str(tmp_path / "victim/suite.json"),
        "--packs",
        str(tmp_path / "victim/packs"),
    ]
    end_all()


@pytest.mark.slow
def test_a_suite_survives() -> None:
    rows = measure(load_suite(TINY, SMALL), kills=1, seed=1, only=FAULTS)
    assert [row["ours"] for row in rows] == [1] * len(FAULTS), rows
