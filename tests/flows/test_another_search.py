"""A search that no file of the house knows runs through all of it: settings, plan, stages, store, comparison, pack."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from evolora_core.engine.run_index import entries
from evolora_core.errors import ConfigError
from evolora_core.searches.base import Experiment
from evolora_core.searches.registry import find_suite, get_search, load_experiment
from evolora_core.store import query

SUITE = "search: number\nname: numbers\nseeds: [0, 1]\nprocesses: {processes}\n"


@pytest.fixture(scope="module")
def finished(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The suite, run by the flow that runs every suite, with workers in processes of their own."""
    from flows.paper_suite import paper_suite

    folder = tmp_path_factory.mktemp("number")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(folder / "home"))
        patch.chdir(folder)
        (folder / "home").mkdir()
        (folder / "numbers.yaml").write_text(SUITE.format(processes=2))
        made = paper_suite("numbers.yaml")
        yield SimpleNamespace(folder=folder, home=folder / "home", **made)


def test_every_stage_is_made_and_recorded(finished: SimpleNamespace) -> None:
    made = {f"{own.condition}.s{own.seed}.{own.stage}": own for own in entries(finished.home, find(finished))}
    assert {own.state for own in made.values()} == {"done"}
    assert {"shared.s1.hints", "evolved.s1.evolve", "guessed.s0.guess", "evolved.s1.evaluate"} < set(made)
    rows = query(finished.home, "SELECT run_id, count(*) FROM number_steps GROUP BY ALL").rows
    assert len(rows) == 4 and {count for _, count in rows} == {8}


def find(finished: SimpleNamespace) -> Any:
    """Its id."""
    return find_suite(finished.home, finished.suite)


def test_its_comparison_and_its_pack_are_the_house_s(finished: SimpleNamespace) -> None:
    from number_search.pack import SECTIONS

    from evolora_core.report import verify

    (row,) = query(finished.home, "SELECT a, b, seeds, verdict FROM comparison").records()
    assert (row["a"], row["b"], row["seeds"]) == ("evolved", "guessed", 2)
    pack = finished.folder / finished.pack
    assert verify(finished.home, pack, SECTIONS) == []
    assert json.loads((pack / "provenance.json").read_text())["config"]["search"] == "number"


def test_commands_for_adapters_say_that_it_has_none(finished: SimpleNamespace, tmp_path: Path) -> None:
    from flows.cli.export import export

    with pytest.raises(ConfigError, match="a run of the search 'number', which leaves no adapters"):
        export("numbers.evolved.s0", out=tmp_path / "adapter")


def test_a_second_run_makes_nothing_anew(finished: SimpleNamespace) -> None:
    from flows.paper_suite import paper_suite

    paper_suite(finished.suite)
    states = {own.stage: own.state for own in entries(finished.home, find(finished))}
    assert set(states.values()) == {"cached"}


def test_it_goes_on_where_its_settings_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("search: number\nname: x\nhiden: 0.5\n")
    with pytest.raises(ConfigError, match=r"suite.yaml:3: unknown key 'hiden'; did you mean 'hidden'\?"):
        load_experiment(path)
    path.write_text("search: nmber\nname: x\n")
    with pytest.raises(ConfigError, match="search: 'nmber' is none; did you mean 'number'?"):
        load_experiment(path)
    path.write_text("search: [number]\nname: x\n")
    with pytest.raises(ConfigError, match="key 'search': is a name"):
        load_experiment(path)


@pytest.mark.parametrize(
    ("conditions", "fault"),
    [
        ("[../x]", "String should match pattern"),
        ("[suite]", "conditions: 'suite' is taken; choose another name"),
        ("[a, a]", "conditions: 'a' stands twice; keep one"),
    ],
)
def test_conditions_of_any_search_have_names_of_their_own(conditions: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Experiment.model_validate({"name": "x", "conditions": yaml.safe_load(conditions)})


def test_the_shipped_search_is_the_default(tmp_path: Path) -> None:
    assert get_search("adapters").name == "adapters"
    tiny = load_experiment(Path(__file__).parents[2] / "configs" / "suites" / "tiny.yaml")
    assert tiny.search == "adapters" and type(tiny) is get_search("adapters").experiment
