"""Fine-tuning with labelled items before each item: in training and in answers, never the item itself, and charged."""

from pathlib import Path
from typing import Any

import pytest
from random_host import draw_items
from small_runs import CONFIG, PRACTICE, budget_of

from evolora_core.engine.probes import probe
from evolora_core.engine.progress import silent
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import gold
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.pricing import price
from evolora_core.lora.population.trained import load_trained
from evolora_core.searches.adapters.labels import solved
from evolora_core.searches.adapters.rivals.checkpoints import interleave
from evolora_core.searches.adapters.rivals.sft import plan_sft, train_sft
from evolora_core.searches.adapters.rivals.shown import before
from evolora_core.searches.adapters.rivals.supervised import fine_tune_and_route
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.routes import read_routes
from evolora_core.searches.adapters.routing.shots import Way, answer_shown, read_shots
from evolora_core.searches.adapters.settings.sft import SftSettings


def test_others_of_the_family_stand_before_an_item_and_never_itself(host: Any, train_items: list[Item]) -> None:
    found = before(host, train_items, solved(train_items), 3, 6)
    family = {(item.prompt, gold(item)): item.family for item in train_items}
    for item, own in zip(train_items, found.examples, strict=True):
        assert len(own) == 3 and {family[example] for example in own} == {item.family}
        assert item.prompt not in [prompt for prompt, _ in own]
    assert found.flops > 0
    nothing = before(host, train_items, solved(train_items), 0, 6)
    assert nothing.flops == 0 and not any(nothing.examples)


def test_training_reads_them_and_the_loss_is_on_the_answer_alone(
    host: Any, train_items: list[Item], selection_items: list[Item], decoding: DecodingConfig, tmp_path: Path
) -> None:
    config = CONFIG.model_copy(update={"shots": 2})
    seen = []

    def look(rows: Any, inputs: Any) -> None:
        seen.append({name: inputs[name].clone() for name in ("input_ids", "labels", "attention_mask")})

    budget = 4 * budget_of(host, train_items, 6.5)
    with probe("examples", look):
        made = train_sft(
            host, solved(train_items), config, budget_flops=budget, seed=3, folder=tmp_path,
            selection_items=selection_items, decoding=decoding,
        )  # fmt: skip
    assert made.meter.total() <= budget
    longest = max(len(ids) for ids in host.encode_answers([gold(item) for item in train_items]))
    examples = before(host, train_items, solved(train_items), 2, longest).examples
    prompts = host.encode_prompts([item.prompt for item in train_items], examples)
    rows = set(zip(map(tuple, prompts), map(tuple, host.encode_answers([gold(i) for i in train_items])), strict=True))
    for batch in seen:
        for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
            real = mask.bool()
            assert (tuple(ids[real & (labels == -100)].tolist()), tuple(labels[labels != -100].tolist())) in rows
    assert seen


def test_its_costs_are_those_of_the_longer_rows(host: Any, train_items: list[Item], selection_items: Any) -> None:
    asked, many = interleave(selection_items, 0), 10**12
    plain, shown = (
        plan_sft(
            host, solved(train_items), CONFIG.model_copy(update={"shots": n}), budget_flops=many, seed=0, asked=asked
        )
        for n in (0, 2)
    )
    assert shown.plan.flops.mean() > 1.5 * plain.plan.flops.mean()
    assert shown.choosing > plain.choosing == 0
    assert [len(own) for own in shown.shown] == [2] * len(asked)


def test_what_stands_before_a_question_leaves_room_for_the_longest_answer(
    host: Any, train_items: list[Item], selection_items: Any
) -> None:
    """Checkpoints are asked with the token cap of answers, whatever the length of the gold ones."""
    asked, config = interleave(selection_items, 0), CONFIG.model_copy(update={"shots": 3})
    prompts = [item.prompt for item in asked]

    def shown(cap: int) -> Any:
        decoding = DecodingConfig(max_new_tokens=cap)
        planned = plan_sft(
            host, solved(train_items), config, budget_flops=10**12, seed=0, asked=asked, decoding=decoding
        )
        return planned.shown

    lengths = [len(ids) for ids in host.encode_prompts(prompts, shown(8))]
    cap = host.max_context - sorted(lengths)[len(lengths) // 2]
    fewer = shown(cap)
    assert max(len(ids) for ids in host.encode_prompts(prompts, fewer)) + cap <= host.max_context
    assert {len(own) for own in fewer} > {3}


@pytest.mark.parametrize("specialists", [False, True])
def test_who_was_trained_with_examples_answers_with_them(specialists: bool, tmp_path: Path) -> None:
    host, decoding = load_host("nano"), DecodingConfig(max_new_tokens=6, batch_rows=64)
    items = draw_items("math", 30, 0) + draw_items("logic.bool", 30, 1)
    selection = draw_items("math", 8, 2) + draw_items("logic.bool", 8, 3)
    prices = price(host, items, PRACTICE, decoding, 0)
    config = SftSettings(
        rank=2, batch_rows=8, checkpoints=1, strengths=[1.0], shots=2, labels=6, specialists=specialists
    )
    terms = Terms(host, items, selection, prices, decoding, ["family", "single"], 0, 3 * 10**10, lambda *_: None)
    made = fine_tune_and_route(config, terms, tmp_path)
    assert made.labels == 12 and made.meter.total() <= terms.budget_flops
    shots = read_shots(tmp_path)
    population, _ = load_trained(host, tmp_path)
    assert shots is not None and population is not None
    count = 2 if specialists else 1
    assert shots.ways == {count + slot: Way(slot, 2, "nearest") for slot in range(count)}
    families = {frozenset(one.family for one in own) for own in shots.solved.values()}
    assert families == (
        {frozenset(["math"]), frozenset(["logic.bool"])} if specialists else {frozenset(["math", "logic.bool"])}
    )
    routes = read_routes(tmp_path, "family")
    for family, given in routes.accuracy.items():
        own = [item for item in selection if item.family == family]
        assert {int(slot) for slot in given} & set(range(count))  # the adapter alone is asked too
        for number in (int(slot) for slot in given if int(slot) in shots.ways):
            way = shots.ways[number]
            told = [family] * len(own)
            answers = answer_shown(host, population, own, [number] * len(own), shots, told, decoding=decoding)
            assert given[str(number)] == sum(o.grade.correct for o in answers) / len(own)
            bare = answer_items(host, population, own, [way.slot] * len(own), decoding=decoding)
            assert all(a.prompt_tokens > b.prompt_tokens for a, b in zip(answers, bare, strict=True))


def test_choosing_examples_is_charged_once_and_takes_no_step(
    host: Any, train_items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where choosing them costs more than a step, every planned step is made; a killed run charges it once, too."""
    config, items = CONFIG.model_copy(update={"shots": 1, "batch_rows": 1}), solved(train_items * 16)
    budget = 2 * budget_of(host, train_items, 1)
    planned = plan_sft(host, items, config, budget_flops=budget, seed=3, asked=[])
    assert planned.choosing > planned.plan.flops[-1] and planned.plan.steps > 4

    def train(folder: Path, progress: Any = silent) -> Any:
        return train_sft(host, items, config, budget_flops=budget, seed=3, folder=folder, progress=progress)

    def numbers(made: Any) -> Any:
        return [(row["purpose"], row["flops"], row["tokens"]) for row in made.meter.rows()]

    whole = train(tmp_path / "whole")
    assert len(whole.steps) == planned.plan.steps
    assert whole.meter.total() == planned.choosing + int(planned.plan.flops.sum()) <= budget
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")  # a checkpoint after every step

    def kill(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", kill)
    done: list[int] = []
    again = train(tmp_path / "killed", lambda step, _: done.append(step))
    assert again.steps == whole.steps and numbers(again) == numbers(whole)
    assert min(done) >= 3  # steps that were saved are not made again
