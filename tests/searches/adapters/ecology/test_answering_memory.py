"""Memories as examples at the end: who shows what it remembers is a candidate like any other, and is paid for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_ecologies import evolve, founded, rows, start

from evolora_core.engine.meter import Meter
from evolora_core.language.families.registry import gold
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.trained import load_trained
from evolora_core.searches.adapters.ecology.evolve import advance
from evolora_core.searches.adapters.ecology.phases.choosing import remembered, shortlist
from evolora_core.searches.adapters.ecology.regimes.registry import regime
from evolora_core.searches.adapters.ecology.rules.registry import rule
from evolora_core.searches.adapters.evaluation.routed import answer_by_router
from evolora_core.searches.adapters.labels import labelled
from evolora_core.searches.adapters.routing.routes import read_routes
from evolora_core.searches.adapters.routing.shots import foretold_flops, read_shots
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.sft import SftConfig


def answering(small: Any, *counts: int) -> EcologyConfig:
    """The little ecology, whose candidates may show what they remember."""
    return EcologyConfig.model_validate(small.config.model_dump() | {"memory": {"answering": counts}})


def test_every_candidate_is_tried_with_its_own_memories(small: Any, tmp_path: Path) -> None:
    run = start(small, tmp_path, answering(small, 2, 4))
    advance(run)
    listed = shortlist(run)
    slots = sorted({slot for own in listed.values() for slot in own})
    shots = remembered(run, slots)
    assert shots is not None and slots
    assert [(way.slot, way.count) for way in shots.ways.values()] == [(slot, n) for slot in slots for n in (2, 4)]
    assert min(shots.ways) > run.state.population.capacity  # a slot is left for the sum of learners
    organelles = {organelle.slot: organelle for organelle in run.state.living}
    for slot, own in shots.solved.items():
        memories = run.state.buffers[organelles[slot].id].memories.values()
        assert len(own) == len({memory.item for memory in memories})
        said = {(small.items[m.item].prompt, small.host.decode(list(m.tokens)).strip()) for m in memories}
        assert {(one.prompt, one.answer) for one in own} <= said
        latest = list(memories)[-1]
        assert own[0].prompt == small.items[latest.item].prompt


def test_memories_are_tried_where_nobody_learned(small: Any) -> None:
    """The weights are the host's, and yet an answer is not, once memories stand before its item."""
    run = founded(small, EcologyConfig.model_validate(small.config.model_dump() | {"memory": {"labels": 5}}))
    assert set(shortlist(run)[small.task.families[0]]) == set()
    run = founded(
        small, EcologyConfig.model_validate(small.config.model_dump() | {"memory": {"labels": 5, "answering": [2]}})
    )
    listed = shortlist(run)
    assert all(listed[family] for family in small.task.families)
    shots = remembered(run, sorted({slot for own in listed.values() for slot in own}))
    assert shots is not None and all(shots.solved.values())


@pytest.mark.parametrize("mode", ["ecology", "single"])
def test_founders_may_know_the_labels_that_other_arms_see(small: Any, mode: str) -> None:
    config = EcologyConfig.model_validate(small.config.model_dump() | {"memory": {"labels": 5}})
    run = founded(small, config, mode=mode)
    given = labelled(small.items, SftConfig(labels=5), small.task.seed)
    for organelle in run.state.living:
        wanted = [item for item in given if organelle.niche in ("", item.family)]
        memories = list(run.state.buffers[organelle.id].memories.values())
        assert [small.items[memory.item].prompt for memory in memories] == [item.prompt for item in wanted]
        said = [small.host.decode(list(memory.tokens)) for memory in memories]
        assert [text.strip() for text in said] == [gold(item) for item in wanted]
        assert len(memories) == (10 if mode == "single" else 5)


def test_what_is_longer_than_the_context_is_not_remembered(small: Any) -> None:
    config = EcologyConfig.model_validate(small.config.model_dump() | {"memory": {"labels": 8}})
    whole = founded(small, config)
    lengths = sorted(map(len, whole.task.prompts))
    short = replace(small.task, host=replace(small.host, max_context=lengths[len(lengths) // 2]))
    run = founded(type(small)(**{**vars(small), "task": short}), config)
    memories = [memory for own in run.state.living for memory in run.state.buffers[own.id].memories.values()]
    assert 0 < len(memories) < sum(len(buffer) for buffer in whole.state.buffers.values())
    assert all(len(short.prompts[own.item]) + len(own.tokens) < short.host.max_context for own in memories)
    long = next(item for item, prompt in enumerate(short.prompts) if len(prompt) >= short.host.max_context)
    assert rule("gold").memories(short, long, []) == []


def test_nothing_is_shown_where_the_suite_asks_for_nothing(small: Any) -> None:
    assert remembered(founded(small), [0]) is None


def test_what_is_set_aside_for_specialists_pays_for_routes_and_for_little_more(small: Any, tmp_path: Path) -> None:
    data = small.config.model_dump() | {"memory": {"answering": [1, 2], "labels": 8}, "assimilation": {"attempts": 0}}
    config, task = EcologyConfig.model_validate(data), small.task
    done = evolve(small, tmp_path, config)
    shown = foretold_flops(task.host, task.selection, task.items, [1, 2], task.decoding.max_new_tokens)
    ranks = regime("ecology").candidate_ranks(config, 2)
    reserved = [
        small.prices.routing_reserve(task.flops, len(task.selection), ranks, shown, specialists=specialists)
        for specialists in (True, False)
    ]
    assert done.meter.flops("routing") <= reserved[0] < 0.6 * reserved[1]


@pytest.mark.parametrize("mode", ["ecology", "single"])
def test_routes_may_lead_to_them_and_they_answer_as_chosen(
    small: Any, straight: Any, tmp_path: Path, mode: str
) -> None:
    budget = None if mode == "ecology" else round(1.6 * straight.meter.total())
    done = evolve(small, tmp_path / "shown", answering(small, 1), mode=mode, budget=budget)
    if budget:
        assert done.generations > 1 and done.meter.total() <= budget
    else:
        assert done.meter.flops("routing") > 1.5 * straight.meter.flops("routing")
    assert done.meter.total() == sum(row["flops"] for row in rows(tmp_path / "shown", "compute"))
    shots = read_shots(tmp_path / "shown")
    routes = {name: read_routes(tmp_path / "shown", name) for name in ("family", "single")}
    assert shots is not None
    asked = {int(slot) for given in routes["family"].accuracy.values() for slot in given}
    assert asked & set(shots.ways) and HOST in asked
    if mode == "single":  # the family is not told there: as many questions again
        assert {int(slot) for slot in routes["single"].accuracy[""]} & set(shots.ways)
    population, _ = load_trained(small.host, tmp_path / "shown")
    way = next(number for number in asked if number in shots.ways)
    lead = {name: type(own)(name, dict.fromkeys(own.table, way)) for name, own in routes.items()}
    items = [item for item in small.task.selection if item.family in lead["family"].table][:6]
    answers = answer_by_router(small.host, population, items, lead, None, Meter(), shots=shots, decoding=small.decoding)
    assert {outcome.slot for own in answers.values() for outcome in own} == {shots.ways[way].slot}
    bare = small.host.encode_prompts([item.prompt for item in items])
    assert all(
        outcome.prompt_tokens > len(ids)
        for outcome, ids, item in zip(answers["family"], bare, items, strict=True)
        if any(one.family == item.family for one in shots.solved[shots.ways[way].slot])
    )
