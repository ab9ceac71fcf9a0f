"""Memories as examples: which are shown, what they cost, and that nothing of an item is before it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from small_ecologies import evolve, founded, rows, start, without_clock

from evolora_core.language.families.registry import gold
from evolora_core.searches.adapters.ecology.evolve import advance
from evolora_core.searches.adapters.ecology.learning.showing import examples
from evolora_core.searches.adapters.ecology.memories import Buffer, Memory
from evolora_core.searches.adapters.ecology.organelle import Group
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


def showing(small: Any, **memory: Any) -> EcologyConfig:
    """The little ecology, whose organelles are shown what they remember."""
    return EcologyConfig.model_validate(small.config.model_dump() | {"memory": {"shown": 3, **memory}})


def remembering(small: Any, config: EcologyConfig, count: int = 6) -> tuple[Run, list[int]]:
    """A run whose first organelle remembers gold answers to the first items of mental arithmetic, and these items."""
    run = founded(small, config)
    mine = [number for number, item in enumerate(small.items) if item.family == "math"][:count]
    for item in mine:
        run.state.remember(run.state.living[0], Memory(item, run.task.gold_tokens[item], 1.0), 100)
    return run, mine


@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 20))
def test_a_child_of_two_has_the_newest_of_both(ours: int, theirs: int, limit: int) -> None:
    one, other = Buffer(), Buffer()
    for item in range(ours):
        one.add(Memory(item, (1,), 1.0), 8)
    for item in range(100, 100 + theirs):
        other.add(Memory(item, (1,), 1.0), 8)
    items = [item for item, _ in one.merged(other, limit).memories]
    assert len(items) == min(limit, ours + theirs)
    mine, received = [item for item in items if item < 100], [item for item in items if item >= 100]
    assert mine == list(range(ours - len(mine), ours))  # the newest, oldest first
    assert received == list(range(100 + theirs - len(received), 100 + theirs))
    if len(mine) < ours and len(received) < theirs:
        assert abs(len(mine) - len(received)) <= 1
    if ours + theirs <= limit:
        assert items == [*range(100, 100 + theirs), *range(ours)]


@pytest.mark.parametrize("chosen", ["nearest", "drawn"])
def test_only_answers_to_other_items_of_the_family_are_shown(small: Any, chosen: str) -> None:
    run, mine = remembering(small, showing(small, chosen=chosen))
    first, second = run.state.living[:2]
    other = next(number for number, item in enumerate(small.items) if item.family == "json_repair")
    groups = [*(Group(first, item) for item in mine), Group(first, other), Group(second, mine[0])]
    *own, elsewhere, unknowing = examples(run, groups)
    assert elsewhere == unknowing == []
    known = [(small.items[item].prompt, gold(small.items[item])) for item in mine]
    for item, shown in zip(mine, own, strict=True):
        assert len(shown) == 3 and set(shown) <= set(known)
        assert small.items[item].prompt not in [prompt for prompt, _ in shown]
    assert (run.state.meter.flops("rollout") > 0) == (chosen == "nearest")  # a draw takes no arithmetic of the host
    few, asked = remembering(small, showing(small, chosen=chosen), count=2)
    assert [len(shown) for shown in examples(few, [Group(few.state.living[0], item) for item in asked])] == [1, 1]


def test_what_is_drawn_in_one_family_says_nothing_of_another(small: Any) -> None:
    run, mine = remembering(small, showing(small, chosen="drawn"))
    first = run.state.living[0]
    theirs = [number for number, item in enumerate(small.items) if item.family == "json_repair"][: len(mine)]
    for item in theirs:
        run.state.remember(first, Memory(item, run.task.gold_tokens[item], 1.0), 100)
    places = []
    for own in (mine, theirs):
        order = [small.items[item].prompt for item in own]
        (*found,) = examples(run, [Group(first, item) for item in own])
        places.append([[order.index(prompt) for prompt, _ in shown] for shown in found])
    assert places[0] != places[1]


def test_the_nearest_stands_last(small: Any) -> None:
    run, mine = remembering(small, showing(small, shown=5))
    (shown,) = examples(run, [Group(run.state.living[0], mine[0])])
    host: Any = run.task.host
    embeddings = host.model.get_input_embeddings().weight.double().numpy()

    def feature(prompt: str) -> Any:
        (ids,) = host.encode_prompts([prompt])
        return embeddings[ids].mean(axis=0)

    centre = np.mean([feature(small.items[item].prompt) for item in mine], axis=0)
    here = feature(small.items[mine[0]].prompt) - centre
    likeness = [(there @ here) / np.linalg.norm(there) for there in (feature(prompt) - centre for prompt, _ in shown)]
    assert likeness == sorted(likeness)


def test_no_more_is_shown_than_leaves_room_for_an_answer(small: Any) -> None:
    run, mine = remembering(small, showing(small))
    host, cap = run.task.host, run.task.decoding.max_new_tokens
    groups = [Group(run.state.living[0], item) for item in mine]
    prompts = [small.items[item].prompt for item in mine]

    def needed(shown: Any) -> list[int]:
        return [len(ids) + cap for ids in host.encode_prompts(prompts, shown)]

    room = min(needed(examples(run, groups))) - 1
    cramped = replace(run, task=replace(run.task, host=replace(host, max_context=room)))
    shown = examples(cramped, groups)
    assert max(needed(shown)) <= room
    assert all(0 < len(own) < 3 for own in shown)


@pytest.fixture(scope="module")
def shown(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose organelles are shown what they remember; tests only read it."""
    return Path(evolve(small, tmp_path_factory.mktemp("shown"), config=showing(small)).folder)


def test_an_item_is_asked_unaided_first_and_examples_are_paid_for(small: Any, shown: Path) -> None:
    bare = {
        item.task_id: len(ids)
        for item, ids in zip(small.items, small.host.encode_prompts([item.prompt for item in small.items]), strict=True)
    }
    longer = {True: 0, False: 0}  # whether it is the second answer to an item
    for row in rows(shown, "episodes"):
        more = row["prompt_tokens"] - bare[row["task_id"]]
        assert row["sample"] or more == 0  # the first answer says what an organelle can do
        longer[row["sample"] == 1] += more > 20
        if not row["generation"]:
            assert more < 20  # nobody remembers anything yet: tokens with which an answer begins
    assert longer[True] and longer[False]
    assert sum(row["amount"] for row in rows(shown, "ledger")) == 0


def test_a_resumed_run_is_shown_the_same(small: Any, shown: Path, tmp_path: Path) -> None:
    config = showing(small)
    advance(start(small, tmp_path, config), generations=2)
    evolve(small, tmp_path, config=config)
    assert without_clock(tmp_path) == without_clock(shown)


def test_only_the_search_is_shown_examples(small: Any) -> None:
    with pytest.raises(ValidationError, match=r"memory\.shown: the rule reinforce practises without examples"):
        EcologyConfig.model_validate({"memory": {"shown": 2}, "plasticity": {"rule": "reinforce"}})
    with pytest.raises(ValidationError, match=r"memory\.answering: the rule grpo remembers no answers"):
        EcologyConfig.model_validate({"memory": {"answering": [2]}, "plasticity": {"rule": "grpo"}})
