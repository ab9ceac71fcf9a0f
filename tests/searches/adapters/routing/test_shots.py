"""Solved examples before an item: which, for whom, that they fit, and that only what a router tells is known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_host import draw_items, random_host

from evolora_core.engine.meter import Meter
from evolora_core.errors import DataError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import enter, gold
from evolora_core.language.hosts.host import Host, load_host
from evolora_core.language.tasks.code_verifier import Code
from evolora_core.language.tasks.own import Definition, family_of
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.outcome import Manner
from evolora_core.lora.population.slots import HOST, PROMPTED
from evolora_core.searches.adapters.evaluation.routed import answer_by_router
from evolora_core.searches.adapters.evaluation.variants import ask_variants
from evolora_core.searches.adapters.routing.candidates import choose_among
from evolora_core.searches.adapters.routing.routes import Routes, read_routes
from evolora_core.searches.adapters.routing.shots import (
    FILE,
    Shots,
    Solved,
    Way,
    answer_shown,
    fitting,
    foretold_flops,
    in_drawn_order,
    read_shots,
    write_shots,
)

torch.set_num_threads(1)
DECODING = DecodingConfig(max_new_tokens=6, batch_rows=64)
WAYS = {0: Way(HOST, 2, "nearest"), 1: Way(HOST, 2, "same"), 2: Way(HOST, 500, "same")}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return random_host(tmp_path_factory.mktemp("hosts") / "tiny")


@pytest.fixture(scope="module")
def nano() -> Host:
    return load_host("nano")


def known(items: list[Item]) -> list[Solved]:
    return [Solved(item.family, item.prompt, gold(item)) for item in items]


@pytest.fixture(scope="module")
def shots() -> Shots:
    return Shots(WAYS, {HOST: known(draw_items("logic.bool", 12, 0) + draw_items("math", 12, 1))})


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return draw_items("logic.bool", 5, 2) + draw_items("math", 5, 3)


def families(items: list[Item]) -> list[str]:
    return [item.family for item in items]


@pytest.mark.parametrize("way", [0, 1])
def test_a_family_that_is_told_shows_its_own_examples(host: Host, shots: Shots, items: list[Item], way: int) -> None:
    slots, examples, flops = shots.before(host, items, [way] * len(items), families(items))
    own = {(one.prompt, one.answer): one.family for one in shots.solved[HOST]}
    assert slots == [HOST] * len(items) and all(len(given) == 2 for given in examples)
    assert [{own[example] for example in given} for given in examples] == [{family} for family in families(items)]
    assert all(cost > 0 for cost in flops) == (way == 0)  # choosing the same ones costs nothing
    if way == 1:
        assert len({tuple(given) for given in examples}) == 2  # one set a family


@pytest.mark.parametrize("way", [0, 1, 2])
def test_untold_an_items_own_family_is_not_looked_at(host: Host, shots: Shots, items: list[Item], way: int) -> None:
    disguised = [replace(item, family="no such family", depth="", target=None) for item in items]
    untold = [shots.before(host, own, [way] * len(own), None) for own in (items, disguised)]
    assert untold[0] == untold[1]
    assert all(len(given) == min(WAYS[way].count, len(shots.solved[HOST])) for given in untold[0][1])


def test_the_nearest_come_last_and_a_prompt_is_nearest_to_itself(host: Host, shots: Shots) -> None:
    same = [Item(one.prompt, None, one.family, "", "") for one in shots.solved[HOST]]
    _, examples, _ = shots.before(host, same, [0] * len(same), None)
    assert [given[-1][0] for given in examples] == [one.prompt for one in shots.solved[HOST]]


def test_where_all_are_shown_the_nearest_come_last_too(host: Host, shots: Shots, items: list[Item]) -> None:
    few = known(draw_items("logic.bool", 4, 5))
    shown = [
        Shots({0: Way(HOST, count, "nearest")}, {HOST: few}).before(host, items, [0] * len(items), None)[1]
        for count in (3, 4, 9)
    ]
    assert shown[1] == shown[2] and [own[1:] for own in shown[1]] == shown[0]
    assert len({tuple(own) for own in shown[1]}) > 1


def test_what_is_shown_does_not_depend_on_what_else_is_asked(host: Host, shots: Shots, items: list[Item]) -> None:
    together = shots.before(host, items, [0] * len(items), None)[1]
    alone = [shots.before(host, [item], [0], None)[1][0] for item in items]
    assert together == alone


def test_a_family_without_examples_is_shown_none(host: Host, shots: Shots) -> None:
    strange = draw_items("word.count", 3, 4)
    assert shots.before(host, strange, [0] * 3, families(strange))[1] == [[], [], []]


def test_answers_are_those_to_the_prompt_with_the_examples_written_out(
    nano: Host, shots: Shots, items: list[Item]
) -> None:
    candidates = [0, 1, HOST, 0, 1] * 2
    outcomes = answer_shown(nano, None, items, candidates, shots, families(items), decoding=DECODING)
    _, examples, flops = shots.before(nano, items, candidates, families(items))
    plain = answer_items(nano, None, items, [HOST] * len(items), Manner(examples=examples), decoding=DECODING)
    assert [(o.answer, o.grade, o.prompt_tokens) for o in outcomes] == [
        (o.answer, o.grade, o.prompt_tokens) for o in plain
    ]
    assert [o.slot for o in outcomes] == [HOST if number == HOST else PROMPTED for number in candidates]
    assert [own.flops - bare.flops for own, bare in zip(outcomes, plain, strict=True)] == flops
    bare = answer_items(nano, None, items, [HOST] * len(items), decoding=DECODING)
    longer = [own.prompt_tokens > short.prompt_tokens for own, short in zip(outcomes, bare, strict=True)]
    assert longer == [number != HOST for number in candidates]


@settings(max_examples=25)
@given(count=st.integers(0, 30), seed=st.integers(1, 12))
def test_examples_leave_room_for_the_answer_and_the_last_are_kept(nano: Host, count: int, seed: int) -> None:
    short = replace(nano, max_context=160)
    own = known(draw_items("string.sort", 30, seed))
    examples = [(one.prompt, one.answer) for one in own[:count]]
    (left,) = fitting(short, ["sort: b a"], [examples], 8)
    assert left == examples[len(examples) - len(left) :]
    (encoded,) = short.encode_prompts(["sort: b a"], [left])
    assert len(encoded) + 8 <= short.max_context
    if len(left) < count:  # one more would not fit
        (longer,) = short.encode_prompts(["sort: b a"], [examples[-len(left) - 1 :]])
        assert len(longer) + 8 > short.max_context


def test_ways_are_candidates_and_are_asked_anew_where_the_family_is_not_told(
    nano: Host, shots: Shots, items: list[Item], tmp_path: Path
) -> None:
    meter = Meter()
    listed = {"": [0, 1]}
    choose_among(nano, None, items, listed, ["family", "single"], tmp_path, meter, decoding=DECODING, shots=shots)
    family, single = (read_routes(tmp_path, name) for name in ("family", "single"))
    assert set(family.accuracy) == {"logic.bool", "math"} and set(single.accuracy) == {""}
    assert all(set(given) == {"-1", "0", "1"} for table in (family, single) for given in table.accuracy.values())
    for table, told in ((family, families(items)), (single, None)):
        for way in (0, 1):
            right = [
                o.grade.correct for o in answer_shown(nano, None, items, [way] * 10, shots, told, decoding=DECODING)
            ]
            found = sum(given[str(way)] * table.n[bucket] for bucket, given in table.accuracy.items())
            assert round(found) == sum(right)
    asked = [answer_items(nano, None, items, [HOST] * 10, decoding=DECODING)]
    for told in (families(items), None):
        asked += [answer_shown(nano, None, items, [way] * 10, shots, told, decoding=DECODING) for way in (0, 1)]
    assert meter.flops("routing") == sum(o.flops for own in asked for o in own)


def test_each_router_tells_what_it_knows(nano: Host, shots: Shots, items: list[Item]) -> None:
    tables = {
        "family": Routes("family", {"logic.bool": 0, "math": HOST}),
        "single": Routes("single", {"": 0}),
    }
    meter = Meter()
    answers = answer_by_router(nano, None, items, tables, None, meter, shots=shots, decoding=DECODING)
    told = answer_shown(nano, None, items, [0] * 5 + [HOST] * 5, shots, families(items), decoding=DECODING)
    untold = answer_shown(nano, None, items, [0] * 10, shots, None, decoding=DECODING)
    said = {name: [(o.answer, o.slot, o.flops) for o in own] for name, own in answers.items()}
    assert said == {
        name: [(o.answer, o.slot, o.flops) for o in own] for name, own in (("family", told), ("single", untold))
    }
    assert meter.flops("evaluation") == sum(o.flops for o in told + untold)


def test_other_forms_of_a_prompt_have_examples_too(nano: Host, shots: Shots, items: list[Item]) -> None:
    routes = Routes("family", {"logic.bool": 1, "math": HOST})
    plain = answer_shown(nano, None, items, [1] * 5 + [HOST] * 5, shots, families(items), decoding=DECODING)
    meters: dict[str, Meter] = {"shown": Meter(), "bare": Meter()}
    ask_variants(nano, None, plain, routes, None, meters["shown"], shots=shots, decoding=DECODING)
    ask_variants(nano, None, plain, None, None, meters["bare"], decoding=DECODING)
    assert meters["shown"].flops("evaluation") > 1.5 * meters["bare"].flops("evaluation")


@pytest.mark.parametrize("count", [1, 4, 8])
def test_what_examples_will_take_is_foretold_from_their_texts(nano: Host, count: int) -> None:
    asked = draw_items("string.sort", 40, 5) + draw_items("math", 40, 6)
    pool = draw_items("string.sort", 40, 7) + draw_items("math", 40, 8)
    shots = Shots({0: Way(HOST, count, "nearest")}, {HOST: known(pool)})
    answers = answer_shown(nano, None, asked, [0] * len(asked), shots, families(asked), decoding=DECODING)
    (foretold,) = foretold_flops(nano, asked, pool, [count], DECODING.max_new_tokens)
    assert 0.9 < foretold / np.mean([outcome.flops for outcome in answers]) < 1.4


def test_an_item_without_a_right_answer_counts_with_its_prompt(nano: Host) -> None:
    enter([family_of(Definition(name="doubling", depths=["all"], verifier=Code(kind="code")))])
    pool = [Item(f"double {n}", {"tests": "assert f(1) == 2", "answer": None}, "doubling", "all", "") for n in range(8)]
    asked = [pool[0]]
    unlike = [replace(item, target=None) for item in pool]
    longer = [replace(item, target={"tests": "", "answer": item.prompt}) for item in pool]
    cap = DECODING.max_new_tokens
    foretold = [foretold_flops(nano, asked, own, [4], cap) for own in (pool, unlike, longer)]
    assert foretold[0] == foretold[1] == foretold[2] and foretold[0][0] > foretold_flops(nano, asked, [], [4], cap)[0]


def test_nothing_is_foretold_where_nothing_is_shown(nano: Host) -> None:
    nameless = [Item("a", "b", "no such family", "", "")]  # whose answer cannot be asked for
    assert foretold_flops(nano, nameless, nameless, [], DECODING.max_new_tokens) == []


def test_the_order_is_drawn_by_seed_and_a_file_is_read_as_it_was_written(shots: Shots, tmp_path: Path) -> None:
    drawn = [in_drawn_order(shots.solved[HOST], seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and all(set(own) == set(shots.solved[HOST]) for own in drawn)
    assert read_shots(tmp_path) is None
    write_shots(tmp_path, shots)
    assert read_shots(tmp_path) == shots
    for damage in ("[]", "{", '{"ways": {"x": {}}, "solved": {}}'):
        (tmp_path / FILE).write_text(damage)
        with pytest.raises(
            DataError, match="shots.json: not a file of examples .*; run the stage that chose them again"
        ):
            read_shots(tmp_path)


def test_mean_features_are_not_moved_by_who_asks(host: Host, shots: Shots, items: list[Any]) -> None:
    """The nearest to one prompt are so by the cosine of centred mean embeddings, computed here once more."""
    from evolora_core.searches.adapters.routing.learned import prompt_features

    pool = [Item(one.prompt, None, one.family, "", "") for one in shots.solved[HOST]]
    features = prompt_features(host, [*items, *pool])[0]
    centred = features - features[len(items) :].mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    order = np.argsort(unit[: len(items)] @ unit[len(items) :].T, axis=1, kind="stable")[:, -2:]
    expected = [[(shots.solved[HOST][n].prompt, shots.solved[HOST][n].answer) for n in row] for row in order]
    assert shots.before(host, items, [0] * len(items), None)[1] == expected
