"""A few of the faults of `evolora bench faults`, on a suite of some seconds: real processes, killed for real."""

from pathlib import Path

import pytest

from evolora_core.config import load_suite
from flows.bench.faults import measure

TINY = Path(__file__).parents[2] / "configs" / "suites" / "tiny.yaml"
SMALL = ["processes=1", "seeds=[0]", "conditions=[frozen, ecology]", "evaluation.comparisons=[]"]
FAULTS = ["kill -9 of the flow", "truncated checkpoint", "NaN organelle", "out of memory"]


@pytest.mark.slow
def test_a_suite_survives():
    rows = measure(load_suite(TINY, SMALL), kills=1, seed=1, only=FAULTS)
    assert [row["ours"] for row in rows] == [1] * len(FAULTS), rows
