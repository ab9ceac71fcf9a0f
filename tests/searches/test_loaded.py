"""Code and texts that stages load by a computed name are in their identities."""

from pathlib import Path

import pytest

from evolora_core.engine.identity import import_closure
from evolora_core.engine.plugins import source
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.stages.loaded import LOADED
from evolora_core.searches.merging.operators.registry import operators

STAGES = Path(__file__).parents[2] / "evolora_core" / "searches"


@pytest.mark.parametrize("stage", ["choosing", "law", "landscape", "evaluate"])
def test_every_operator_counts_in_what_merges(stage: str) -> None:
    closure = import_closure(f"evolora_core.searches.merging.stages.{stage}")
    assert {operator.apply.__module__ for operator in operators().values()} <= closure
    assert "evolora_core.searches.merging.operators.deltas" in closure


def test_what_makes_spaces_and_strategies_counts_in_what_searches() -> None:
    closure = import_closure("evolora_core.searches.merging.stages.choosing")
    assert {f"evolora_core.searches.merging.{name}.registry" for name in ("spaces", "strategies")} <= closure


def test_templates_and_the_baseline_count_in_what_trains_programs() -> None:
    child, nursery, *read = LOADED  # the first two are code
    assert child.endswith(".child") and nursery.endswith(".nursery")
    texts = [source(name).read_text() for name in read if source(name)]  # type: ignore[union-attr]
    assert sorted(texts) == sorted([KNOWN[BASELINE].source, *(own.source for own in FRAMEWORKS.values())])
    files = [path for path in (STAGES / "attention" / "stages").glob("*.py") if "LOADED" in path.read_text()]
    assert {path.stem for path in files} >= {"rates", "mechanism", "search", "table", "ablate", "evaluate", "ensemble"}
    for name in LOADED:
        assert name in import_closure(*LOADED)
