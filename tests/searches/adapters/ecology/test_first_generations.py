"""What the first generations of a run tell of the rest, and that the run goes on from them."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_ecologies import start

from evolora_core.errors import StageError
from evolora_core.searches.adapters.ecology import first_generations
from evolora_core.searches.adapters.ecology.events import LOGGED, Events
from evolora_core.searches.adapters.ecology.evolve import advance
from evolora_core.searches.adapters.ecology.horizon import Horizon


@pytest.fixture(scope="module")
def started(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that stands after two of its four generations."""
    run = start(small, tmp_path_factory.mktemp("started"))
    advance(run, generations=2)
    return run


def struck(run: Any, family: str = "", **changes: Any) -> Any:
    """The same run where every answer of its first generations was another, or every one to a family."""
    rows = [row | changes if family in ("", row["family"]) else row for row in run.state.events["episodes"]]
    events = Events(fresh={name: run.state.events[name] for name in LOGGED} | {"episodes": rows})
    return dataclasses.replace(run, state=dataclasses.replace(run.state, events=events))


def test_it_counts_what_its_generations_took_and_found(small: Any, started: Any) -> None:
    found = first_generations.measure(started)
    priced = sum(row["flops"] for row in small.prices.meter["rows"])
    assert found.generations == 2 and found.generation_seconds > 0
    assert 2 * found.generation_flops == started.state.meter.total() - priced
    first = [row["correct"] for row in started.state.events["episodes"] if row["sample"] == 0]
    assert found.rewarded == pytest.approx(sum(first) / len(first))
    assert found.rewarded <= found.practised <= 1
    assert {row["key"] for row in found.rows()} == {field.name for field in dataclasses.fields(found)}


def test_a_ticket_that_nobody_can_pay_is_named(small: Any, tmp_path: Path) -> None:
    config = small.config.model_copy(update={"economy": small.config.economy.model_copy(update={"ticket": 300.0})})
    run = start(small, tmp_path, config)
    advance(run, generations=2)
    assert not run.state.extinct
    with pytest.raises(StageError, match=r"nobody could pay for a ticket .* lower ecology\.economy\.ticket"):
        first_generations.measure(run)


@pytest.mark.parametrize(
    ("correct", "words"), [(False, "was ever answered correctly"), (True, "nothing can be learned")]
)
def test_rewards_that_do_not_vary_are_refused(started: Any, correct: bool, words: str) -> None:
    with pytest.raises(StageError, match=words):
        first_generations.measure(struck(started, correct=correct))


def test_where_discovery_is_luck_an_unlucky_run_goes_on(started: Any) -> None:
    run = struck(started, correct=False)
    for hope in ({"unrewarded": "go_on"}, {"memory": run.config.memory.model_copy(update={"labels": 4})}):
        patient = dataclasses.replace(run, config=run.config.model_copy(update=hope))
        assert first_generations.measure(patient).practised == 0


def test_a_family_that_neither_host_nor_practice_has_answered_is_named(
    started: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def told(run: Any) -> list[str]:
        caplog.clear()
        first_generations.measure(run)
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    run, prices = struck(started, "math", correct=False), started.task.prices
    assert prices.accuracy["math/short"] > 0 and told(run) == []  # practice may find what the host has answered once
    never = dataclasses.replace(prices, accuracy=prices.accuracy | {"math/short": 0.0})
    lost = dataclasses.replace(run, task=dataclasses.replace(run.task, prices=never))
    items = {row["task_id"] for row in run.state.events["episodes"] if row["family"] == "math"}
    (line,) = told(lost)
    assert line.startswith(f"math: none of {len(items)} items of the first 2 generations was answered rightly")
    assert told(dataclasses.replace(lost, state=started.state)) == []
    memory = run.config.memory.model_copy(update={"labels": 4})
    assert told(dataclasses.replace(lost, config=run.config.model_copy(update={"memory": memory}))) == []


def test_families_that_have_not_come_yet_may_be_harder(small: Any, started: Any) -> None:
    coming = Horizon(4, arrivals=("math", "json_repair"))
    assert first_generations.measure(dataclasses.replace(struck(started, correct=True), horizon=coming)).rewarded == 1


def test_a_host_that_is_never_right_is_refused_by_a_real_run(small: Any, tmp_path: Path) -> None:
    sums = [item for item in small.items if item.family == "math"]
    wrong = [dataclasses.replace(item, target=10**9 + n) for n, item in enumerate(sums)]
    task = dataclasses.replace(small.task, items=wrong)
    run = start(SimpleNamespace(task=task, config=small.config), tmp_path)
    advance(run, generations=1)
    with pytest.raises(StageError, match=r"none of \d+ items of the first 1 generations"):
        first_generations.measure(run)
