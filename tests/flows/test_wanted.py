"""What `evolora retry` runs again: the named runs and stages, and what they need."""

import subprocess
import sys
from pathlib import Path

import pytest

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import Suite
from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite
from evolora_core.searches.adapters.plan import plan
from evolora_core.searches.registry import get_search, load_experiment
from flows._plan import wanted

ROOT = Path(__file__).parents[2]
TINY = ROOT / "configs" / "suites" / "tiny.yaml"
RUN = "ecology.s0.evolve"


@pytest.fixture
def suite() -> Suite[SuiteConfig]:
    """A suite that is called like one of its conditions."""
    settings = ["name=ecology", "seeds=[0]", "conditions=[frozen, ecology]", "evaluation.comparisons=[]"]
    return Suite(load_suite(TINY, settings), SuiteId("ecology", "0a1b2c3d"))


@pytest.mark.parametrize("prefix", ["", "ecology.", "ecology-0a1b2c3d."])
def test_the_suites_name_may_be_a_conditions_too(suite: Suite[SuiteConfig], prefix: str) -> None:
    steps = plan(suite)
    assert [step.name for step in steps if step.name.startswith("ecology.")] == [
        "ecology.s0.calibrate",
        RUN,
        "ecology.s0.evaluate",
    ]
    whole = [step.name for step in wanted(steps, [f"{prefix}ecology.s0"], suite.id)]
    assert whole[-1] == "ecology.s0.evaluate" and RUN in whole and "frozen.s0.evaluate" not in whole
    assert [step.name for step in wanted(steps, [f"{prefix}ecology.s0.evolve"], suite.id)] == whole[:-1]
    assert wanted(steps, [f"{prefix}suite.s0.pack"], suite.id) == steps
    with pytest.raises(ConfigError, match=r"ecology\.s7: ecology-0a1b2c3d has no such run or stage"):
        wanted(steps, [f"{prefix}ecology.s7"], suite.id)


def test_a_seed_has_all_that_is_made_of_it() -> None:
    """Also what no condition needs, such as a table of every program."""
    config = load_experiment(ROOT / "configs/suites/attention-table.yaml", ["seeds=[0, 1]"])
    steps = get_search(config.search).plan(Suite(config, SuiteId("table", "0a1b2c3d"), None))
    chosen = {step.name for step in wanted(steps, ["s0"], SuiteId("table", "0a1b2c3d"))}
    assert {step.name for step in steps if ".s0." in step.name} <= chosen
    assert not any(name.endswith(".s1.evaluate") for name in chosen)


def test_all_if_nothing_is_named(suite: Suite[SuiteConfig]) -> None:
    steps = plan(suite)
    assert wanted(steps, [], suite.id) == steps


@pytest.mark.parametrize("changes", [[], ["workers=dask"]])
def test_what_is_asked_for_is_looked_at_without_prefect(changes: list[str]) -> None:
    """Imported before its server is known, Prefect starts another one, and writes to the console."""
    code = f"""
import sys
from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.experiment import load_suite
from flows._plan import check_plan
try:
    check_plan(load_suite({str(TINY)!r}, {changes!r}), ["s0"])
except ConfigError:
    pass
import flows._server, flows.cli.run
assert not [name for name in sys.modules if name.partition(".")[0] == "prefect"]
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
