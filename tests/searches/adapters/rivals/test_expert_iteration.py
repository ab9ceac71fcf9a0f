"""Expert iteration on a real host."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_runs import short_words

from evolora_core.engine.probes import probe
from evolora_core.errors import DataError, Unaffordable
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.language.flops import FlopModel
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.population.peft_io import import_peft
from evolora_core.searches.adapters.labels import Given, labelled, solved
from evolora_core.searches.adapters.rivals import expert_iteration
from evolora_core.searches.adapters.settings.expert_iteration import ExpertIterationConfig

torch.set_num_threads(1)
CONFIG = ExpertIterationConfig(rank=2, rounds=3, samples=3, batch_rows=8, learning_rate=5e-3)
DECODING = DecodingConfig(max_new_tokens=8, batch_rows=64)
BUDGET = 12_000_000_000


@pytest.fixture(scope="module")
def sorting() -> Any:
    return short_words(128)


def train(nano: Any, sorting: Any, folder: Path, config: Any = CONFIG, budget: int = BUDGET, **more: Any) -> Any:
    return expert_iteration.train_expert_iteration(
        nano, sorting, config, budget_flops=budget, seed=1, folder=folder, decoding=DECODING, **more
    )


@pytest.fixture(scope="module")
def whole(nano: Any, sorting: Any, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A run that nothing disturbed, what it learned from and what it asked; tests only read it."""
    seen: set[tuple[str, str]] = set()

    def look(rows: Any, inputs: Any) -> None:
        for ids, labels, mask in zip(inputs["input_ids"], inputs["labels"], inputs["attention_mask"], strict=True):
            prompt = nano.decode(ids[mask.bool() & (labels == -100)].tolist())
            seen.add((prompt, nano.decode(labels[labels != -100].tolist())))

    with asking() as asked, probe("examples", look):
        result = train(nano, sorting, tmp_path_factory.mktemp("whole"))
    return SimpleNamespace(result=result, seen=seen, asked=asked)


@contextmanager
def asking() -> Iterator[set[str]]:
    """The prompts that a run inside asks."""
    asked: set[str] = set()
    answer = vars(expert_iteration)["answer_items"]

    def noted(host: Any, population: Any, items: Any, *given: Any, **more: Any) -> Any:
        asked.update(item.prompt for item in items)
        return answer(host, population, items, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expert_iteration, "answer_items", noted)
        yield asked


def weights(result: Any) -> Any:
    return load_file(result.adapter_folder / "adapter_model.safetensors")


def counts(result: Any) -> Any:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in result.meter.rows()]


def test_it_learns_right_answers_of_its_own_alone_within_its_budget(nano: Any, sorting: Any, whole: Any) -> None:
    result, seen = whole.result, whole.seen
    asked = {nano.decode(ids): item for ids, item in zip(prompts(nano, sorting), sorting, strict=True)}
    assert seen and all(grade(asked[prompt], answer).correct for prompt, answer in seen)
    assert result.meter.total() <= BUDGET
    assert {row["purpose"] for row in result.meter.rows()} == {"rollout", "update"}
    assert sum(own.flops for own in result.rounds) == result.meter.total()
    assert [own.number for own in result.rounds] == [1, 2, 3]
    assert all(own.solved <= own.items and own.answers == 3 * own.items for own in result.rounds)
    steps = [row["step"] for row in result.steps]
    assert steps == list(range(1, len(steps) + 1))
    assert {row["adapter"] for row in result.steps} == {"round-1", "round-2", "round-3"}
    assert import_peft(result.adapter_folder, nano).norm() > 0


def test_the_space_of_a_plain_template_is_not_learned(
    nano: Any, sorting: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that is asked in one begins its answers with a space, and the template puts one before what is learned."""

    def spaced(*given: Any, **named: Any) -> list[Any]:
        return [replace(outcome, answer=f" {outcome.answer}") for outcome in answer_items(*given, **named)]

    monkeypatch.setattr(expert_iteration, "answer_items", spaced)
    result = train(nano, sorting, tmp_path)
    assert weights(result).keys() == weights(whole.result).keys()
    assert all(torch.equal(value, weights(whole.result)[name]) for name, value in weights(result).items())


def prompts(nano: Any, items: list[Item]) -> Any:
    return nano.encode_prompts([item.prompt for item in items])


def test_rounds_have_equal_shares_and_answers_at_most_theirs(nano: Any, sorting: Any, tmp_path: Path) -> None:
    result = train(nano, sorting, tmp_path, CONFIG.model_copy(update={"sampling": 0.25}))
    for own in result.rounds:
        assert 0.8 * BUDGET / 3 < own.flops < 1.25 * BUDGET / 3
    assert 0.15 * BUDGET < result.meter.flops("rollout") <= 0.25 * BUDGET * 1.1


@pytest.mark.parametrize("ended", ["rounds", "learning"])
def test_a_killed_run_ends_as_if_it_had_not_been(
    nano: Any, sorting: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    whole = whole.result

    class Killed(Exception):
        pass

    learn, left = expert_iteration._learn, [2]

    def kill(*given: Any) -> Any:
        left[0] -= 1
        if not left[0] and ended == "rounds":
            raise Killed  # what the second round found is kept
        result = learn(*given)
        if not left[0]:
            raise Killed  # and so is what it learned
        return result

    monkeypatch.setattr(expert_iteration, "_learn", kill)
    with suppress(Killed):
        train(nano, sorting, tmp_path / "killed")
    assert not left[0]
    found = json.loads((tmp_path / "killed" / ".work" / "round-2" / "found.json").read_text())
    assert found["asked"] == whole.rounds[1].items and len(found["found"]) == whole.rounds[1].solved
    monkeypatch.setattr(expert_iteration, "_learn", learn)
    rounds = [tmp_path / "killed" / ".work" / f"round-{number}" / "found.json" for number in (1, 2)]
    written = [path.stat().st_mtime_ns for path in rounds]
    again = train(nano, sorting, tmp_path / "killed")
    assert [path.stat().st_mtime_ns for path in rounds] == written  # nobody was asked again
    assert again.rounds == whole.rounds and again.steps == whole.steps and counts(again) == counts(whole)
    one, other = weights(whole), weights(again)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_gold_answers_are_learned_beside_what_is_found(nano: Any, sorting: Any, tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"labels": 5, "temperature": 100.0})  # at which nothing is right
    answers: list[str] = []

    def look(rows: Any, inputs: Any) -> None:
        answers.extend(nano.decode(row[row != -100].tolist()) for row in inputs["labels"])

    with probe("examples", look):
        result = train(nano, sorting, tmp_path, config)
    found = sum(own.solved for own in result.rounds)
    gold = {one.answer for one in solved(labelled(sorting, Given(5), 1))}
    assert gold <= set(answers) and len(set(answers)) <= len(gold) + found


def test_an_item_with_a_gold_answer_is_learned_once_in_a_round(
    nano: Any, sorting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, rounds = vars(expert_iteration)["_learn"], []

    def noted(task: Any, rows: Any, *given: Any) -> Any:
        rounds.append([one.prompt for one in rows])
        return learn(task, rows, *given)

    monkeypatch.setattr(expert_iteration, "_learn", noted)
    result = train(nano, sorting, tmp_path, CONFIG.model_copy(update={"labels": 100}))
    assert sum(own.solved for own in result.rounds) > 0
    assert all(len(prompts) == len(set(prompts)) for prompts in rounds)


def test_who_finds_nothing_stays_the_host(
    nano: Any, sorting: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = train(nano, hopeless(sorting[:4]), tmp_path, CONFIG.model_copy(update={"rounds": 2}))
    assert not result.steps and [own.solved for own in result.rounds] == [0, 0]
    assert [own.items for own in result.rounds] == [4, 4]  # none is asked twice in a round, however much there is
    assert import_peft(result.adapter_folder, nano).norm() == 0
    assert "none of 4 items of round 2 was answered rightly" in caplog.text


def test_gold_answers_that_do_not_fit_the_host_end_no_run(nano: Any, sorting: Any, tmp_path: Path) -> None:
    long = [Item(item.prompt, "a" * 4000, item.family, item.depth, item.task_id) for item in sorting[:4]]
    result = train(nano, long, tmp_path, CONFIG.model_copy(update={"rounds": 2, "labels": 1}), budget=4 * 10**12)
    assert not result.steps and [own.items for own in result.rounds] == [4, 4]


def hopeless(items: list[Item]) -> list[Item]:
    """The same prompts, which nothing answers rightly."""
    return [Item(item.prompt, "no letters", item.family, item.depth, item.task_id) for item in items]


@pytest.mark.parametrize("able", [True, False])
def test_what_a_budget_does_not_pay_for_is_said_before_anything_is_asked(
    nano: Any, sorting: Any, tmp_path: Path, able: bool
) -> None:
    """Whatever would be found: no outcome decides which seeds count."""
    items = sorting if able else hopeless(sorting)
    with pytest.raises(Unaffordable, match="do not pay for 3 answers to the longest .* lower expert_iteration.rounds"):
        train(nano, items, tmp_path, budget=10_000)
    large = CONFIG.model_copy(update={"batch_rows": 10_000})
    with pytest.raises(Unaffordable, match="a round leaves for learning do not pay for a step of 10000 of the longest"):
        train(nano, items, tmp_path, large)
    with pytest.raises(DataError, match="expert_iteration: none of 1 training items fits"):
        train(nano, [Item("long " * 500, "x", "string.sort", "short", "0")], tmp_path)
    assert not list(tmp_path.iterdir())


def test_long_gold_answers_count_among_the_longest_rows(nano: Any, sorting: Any, tmp_path: Path) -> None:
    """A budget that pays for a step of what is sampled, and for none of longer gold answers."""
    long = [Item(item.prompt, "a" * 60, item.family, item.depth, item.task_id) for item in sorting]
    model = FlopModel.from_model(nano.model)
    longest = max(map(len, prompts(nano, sorting)))
    step = CONFIG.batch_rows * int(model.train_flops(longest + 9, 9, CONFIG.rank))
    budget = 2 * CONFIG.rounds * (step + 1)
    config = CONFIG.model_copy(update={"labels": 5})
    assert train(nano, long, tmp_path / "found", budget=budget).rounds
    with pytest.raises(Unaffordable, match="of the longest rows"):
        train(nano, long, tmp_path / "gold", config, budget)


def test_the_seed_decides_which_items_are_asked(nano: Any, sorting: Any, whole: Any, tmp_path: Path) -> None:
    """That equal seeds ask the same follows from the killed runs, whose rounds are those of the whole one."""
    with asking() as others:
        expert_iteration.train_expert_iteration(
            nano, sorting, CONFIG, budget_flops=BUDGET, seed=2, folder=tmp_path, decoding=DECODING
        )
    assert whole.asked and whole.asked != others and len(whole.asked) < len(sorting)
