"""What compute-matched arms are given."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evolora_core.searches.adapters.experiment import load_suite
from tasks.matched import arrivals

TINY = Path(__file__).parents[2] / "configs" / "suites" / "tiny.yaml"


def test_families_arrive_by_the_names_that_items_have() -> None:
    suite: Any = SimpleNamespace(config=load_suite(TINY, ["data.train_families=[regex, math]", "data.arrivals=true"]))
    assert arrivals(suite) == ["regex.synthesis", "math"]
