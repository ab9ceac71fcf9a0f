import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evolora_core.errors import DataError
from evolora_core.language.families.base import Grade, Item
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.routing.routes import choose_routes, read_routes, route, routings_in, write_routes

FAMILIES = ("math", "logic.bool")
ITEMS = [Item(f"question {i}", 0, FAMILIES[i % 2], "short", f"t{i}") for i in range(32)]


def outcomes(slot: int, correct: Any, *, flops: int = 100, score: Any = None) -> Any:
    """What a slot answered: `correct` is a string of eight 0 and 1, four times over the items."""
    return [
        Outcome(
            item,
            slot,
            "",
            Grade(float(right) if score is None else max(score, float(right)), right == "1", ""),
            10,
            2,
            flops,
            flops,
            [],
            True,
        )
        for item, right in zip(ITEMS, correct * 4, strict=True)
    ]


def answered(**by_slot: Any) -> Any:
    """host="…", s3="…" -> slot -> outcomes."""
    return {HOST if name == "host" else int(name[1:]): outcomes(-1, text) for name, text in by_slot.items()}


def test_the_best_of_each_family_answers_it() -> None:
    found = choose_routes(answered(host="00000000", s0="10100000", s1="01010100", s2="10000000"), "family")
    assert found.table == {"math": 0, "logic.bool": 1}
    assert found.accuracy["math"] == {"-1": 0.0, "0": 0.5, "1": 0.0, "2": 0.25}
    assert found.n == {"math": 16, "logic.bool": 16}
    assert found.slots == [0, 1]
    unseen = Item("other", 0, "string.sort", "short", "x")
    assert route([ITEMS[0], ITEMS[1], unseen], found).tolist() == [0, 1, HOST]


def test_the_learned_router_sees_the_guess_alone() -> None:
    found = choose_routes(answered(host="00000000", s0="10100000", s1="01010100"), "learned")
    assert route(ITEMS[:3], found, ["logic.bool", "math", "neither"]).tolist() == [1, 0, HOST]
    for routes, guessed in ((found, None), (replace(found, routing="family"), ["math"])):
        with pytest.raises(ValueError, match="families that a classifier guessed"):
            route(ITEMS[:1], routes, guessed)


def test_single_sends_everything_to_one() -> None:
    found = choose_routes(answered(host="00000000", s0="10100000", s1="01010100"), "single")
    unseen = Item("other", 0, "string.sort", "short", "x")
    assert route([*ITEMS, unseen], found).tolist() == [1] * 33


def test_the_host_answers_where_nobody_is_better() -> None:
    found = choose_routes(answered(host="10100000", s0="10100100", s1="01010000"), "family")
    assert found.table == {"math": HOST, "logic.bool": 1}
    assert choose_routes(answered(host="11111111", s0="11111111"), "single").table == {"": HOST}
    assert choose_routes(answered(host="11111111"), "family").table == {"math": HOST, "logic.bool": HOST}


def test_a_lead_within_chance_is_left_to_the_host() -> None:
    """Twelve items better and eight worse: ahead, but 4 < √20."""
    lucky = answered(host="11000000", s0="00111000")
    assert choose_routes(lucky, "single").table == {"": HOST}
    assert choose_routes(answered(host="11000000", s0="11110000"), "single").table == {"": 0}


def test_a_noisy_candidate_takes_no_route_from_one_that_leads() -> None:
    """Both are four items ahead: the first wins sixteen and loses twelve, the second only wins."""
    found = choose_routes(answered(host="11100000", s0="00011110", s1="11110000"), "single")
    assert found.table == {"": 1}


def test_a_no_op_is_not_chosen_where_another_beats_the_host() -> None:
    # By the tie rules alone slot 0 would win; it changes nothing, so what it shows is rounding.
    found = choose_routes(answered(host="00000000", s0="10100000", s1="10100000"), "single", no_op=[0])
    assert found.table == {"": 1} and found.no_op == (0,)
    better = choose_routes(answered(host="00000000", s0="11100000", s1="10100000"), "family", no_op=[0])
    assert better.table["math"] == 1
    worse = choose_routes(answered(host="10000000", s0="10000000", s1="00000000"), "single", no_op=[0])
    assert worse.table == {"": HOST}


def test_ties_go_to_score_then_cost_then_the_lower_slot() -> None:
    base = {HOST: outcomes(HOST, "00000000")}
    right = "11110000"
    assert choose_routes(base | {5: outcomes(5, right), 2: outcomes(2, right)}, "single").table == {"": 2}
    cheaper = base | {2: outcomes(2, right), 5: outcomes(5, right, flops=90)}
    assert choose_routes(cheaper, "single").table == {"": 5}
    closer = base | {2: outcomes(2, right, flops=90), 5: outcomes(5, right, score=0.5)}
    assert choose_routes(closer, "single").table == {"": 5}


@example({1: "00000111", 0: "00001101"}, "00010010")  # as good, but only the second is ahead beyond chance
@settings(max_examples=60)
@given(
    st.dictionaries(st.integers(0, 6), st.text("01", min_size=8, max_size=8), max_size=5),
    st.text("01", min_size=8, max_size=8),
)
def test_on_the_selection_split_routing_is_never_worse_than_the_host(organelles: Any, host: Any) -> None:
    by_slot = {HOST: outcomes(HOST, host)} | {slot: outcomes(slot, text) for slot, text in organelles.items()}

    def right(routing: Any) -> Any:
        slots = route(ITEMS, choose_routes(by_slot, routing))
        return sum(by_slot[slot][i].grade.correct for i, slot in enumerate(slots.tolist()))

    bare = 4 * host.count("1")
    assert right("single") >= bare and right("family") >= bare
    totals = [bare]
    for own in organelles.values():
        wins = 4 * sum(a > b for a, b in zip(own, host, strict=True))
        losses = 4 * sum(a < b for a, b in zip(own, host, strict=True))
        if wins - losses > (wins + losses) ** 0.5:  # ahead beyond chance
            totals.append(bare + wins - losses)
    assert right("single") == max(totals)
    shuffled = dict(reversed(by_slot.items()))
    assert choose_routes(shuffled, "family") == choose_routes(by_slot, "family")


def test_routes_survive_json(tmp_path: Path) -> None:
    found = choose_routes(answered(host="00000000", s0="10100000", s1="01010100"), "family", no_op=[1])
    assert routings_in(tmp_path) == []
    write_routes(tmp_path, found)
    assert routings_in(tmp_path) == ["family"] and read_routes(tmp_path, "family") == found


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "routes-family.json"
    for text in ("{", json.dumps({"routing": "family"}), json.dumps({"what": 1, "no_op": []})):
        path.write_text(text)
        with pytest.raises(DataError, match="routes-family.json: not a route table.*run the stage"):
            read_routes(tmp_path, "family")


def test_candidates_must_be_comparable() -> None:
    with pytest.raises(ValueError, match="bare host"):
        choose_routes({0: outcomes(0, "00000000")}, "family")
    with pytest.raises(ValueError, match="slot 0 answered other selection items"):
        choose_routes({HOST: outcomes(HOST, "00000000"), 0: outcomes(0, "00000000")[::-1]}, "family")
    with pytest.raises(ValueError, match="unknown routing 'cells'; choose from"):
        choose_routes(answered(host="00000000"), "cells")


def test_an_empty_list_is_routed_to_nobody() -> None:
    assert np.array_equal(route([], choose_routes(answered(host="00000000"), "family")), [])
