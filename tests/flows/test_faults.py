"""One of the faults of `evolora bench faults`, on a suite of some seconds: a real process, killed for real."""

import signal
from pathlib import Path

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


@pytest.mark.slow
def test_a_suite_survives() -> None:
    rows = measure(load_suite(TINY, SMALL), kills=1, seed=1, only=FAULTS)
    assert [row["ours"] for row in rows] == [1] * len(FAULTS), rows
