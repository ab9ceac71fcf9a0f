"""What contenders are asked in a contest, who of them loses, and what whoever takes a loser's slot begins with."""

from typing import Any

import pytest
import torch
from small_ecologies import change, contending, founded, seeded

from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.phases.contest import compete, contest, losers_of, succeed
from evolora_core.searches.adapters.ecology.phases.episodes import act, allocate


def test_who_samples_in_practice_is_asked_anew_in_a_contest(small: Any) -> None:
    """Two contenders with the same weights, of whom one samples at a high temperature."""
    config = contending(small, contenders=2, loser="restarts", alpha=0.05)
    config = config.model_copy(update={"plasticity": config.plasticity.model_copy(update={"rule": "reinforce"})})
    run = founded(small, config, mode="single")
    for own, temperature in zip(run.state.living, (0.05, 5.0), strict=False):
        change(run.state, own, temperature=temperature)
    for own in run.state.living:
        run.state.teach(own)
    groups = allocate(run, run.state.living)
    answers = act(run, groups)
    contest(run, groups, answers)
    found = run.state.events["contests"]
    assert len(found) == 2 and len({row["correct"] for row in found}) == 1 and {row["p"] for row in found} == {1.0}


def test_who_restarts_begins_with_the_founders_labels(small: Any) -> None:
    config = contending(small, loser="restarts")
    config = config.model_copy(update={"memory": config.memory.model_copy(update={"labels": 3})})
    run = founded(small, config, mode="single")
    before = run.state.buffers[1].memories
    child = succeed(run, run.state.organelles[0], run.state.organelles[1], 0)
    assert run.state.buffers[child.id].memories == before and len(before) == 6


def test_a_copy_has_what_its_winner_had_and_who_restarts_its_traits_alone(small: Any) -> None:
    for loser in ("copies", "restarts"):
        run = founded(small, contending(small, loser=loser, spread=0.0), mode="single")
        state = run.state
        winner, beaten = state.organelles[0], state.organelles[1]
        state.population.weights[0] += 0.1 * (state.population.rank_mask()[0])
        state.optimizer.steps[0], state.optimizer.first[0], state.optimizer.second[0] = 7, 0.2, 0.3
        state.remember(winner, Memory(3, (1, 2), 1.0), 8)
        state.observe(winner, 0, [True, True])
        winner, owned = state.teach(winner), state.ledger.balance(winner.id)
        child = succeed(run, winner, beaten, owned // 2)
        assert state.ledger.balance(child.id) == owned // 2 > 0
        assert (child.slot, child.learning_rate, child.rank) == (1, winner.learning_rate, winner.rank)
        assert not state.organelles[1].alive and state.organelles[1].cause == "beaten"
        same = torch.equal(state.population.weights[0], state.population.weights[1])
        assert same == (loser == "copies")
        assert int(state.optimizer.steps[1]) == (7 if same else 0)
        assert torch.equal(state.optimizer.second[0], state.optimizer.second[1]) == same
        assert len(state.buffers[child.id]) == (1 if same else 0)
        assert state.practice[1].any() == same
        assert child.lessons == winner.lessons  # it keeps contending
        assert [row["weight"] for row in state.events["lineage"] if row["child"] == child.id] == [float(same)]
        assert sum(state.ledger.balances.values()) == 0


def test_a_winner_and_its_copies_share_what_it_had(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolora_core.searches.adapters.ecology.phases.contest.losers_of", lambda run, all: all[1:])
    run = founded(small, contending(small), mode="single")
    for own in run.state.living:
        run.state.teach(own)
    before = {own.id: run.state.ledger.balance(own.id) for own in run.state.living}
    contest(run, [], [])
    ledger, costs = run.state.ledger, {row["account"]: 0 for row in run.state.settle()}
    copies = [own for own in run.state.living if own.origin == "copy"]
    (winner,) = [own for own in run.state.living if own.origin == "founder"]
    assert len(copies) == 2 and len(before) == 3 and str(winner.id) in costs
    shares = {ledger.balance(own.id) for own in copies}
    assert len(shares) == 1 and min(shares) > 0
    assert 0 <= ledger.balance(winner.id) - min(shares) <= len(copies)  # what does not divide stays with the winner
    assert sum(ledger.balances.values()) == 0


def test_who_learned_in_a_poor_winners_place_contends_no_more(small: Any) -> None:
    """The contest of its niche has ended, and another one would be charged for."""
    run = founded(small, contending(small, contenders=2, ends=2))
    (niche, (winner, loser)), *_ = run.contenders().items()
    stand_in = next(own for own in run.state.living if own.niche == niche and own not in (winner, loser))
    for run.state.generation in range(2):
        winner, loser = run.state.teach(winner), run.state.teach(loser)
    other, (one, two) = next((name, own[:2]) for name, own in run.contenders().items() if name != niche)
    third = next(own for own in run.state.living if own.niche == other and own not in (one, two))
    run.state.generation = 0
    run.state.retire(third, "beaten")  # in a contest before the last one
    run.state.generation = 1
    run.state.retire(loser, "beaten")
    stand_in = run.state.teach(stand_in)
    assert {own.id for own in run.contenders()[niche]} == {winner.id, stand_in.id}  # the contest is not over
    run.state.generation = 2
    assert [own.id for own in run.contenders()[niche]] == [winner.id] and run.crowd == 1 + (len(run.contenders()) > 1)
    assert run.contenders()[other] == [one, two]


def test_chance_names_as_many_losers_as_the_test_and_by_another_order(small: Any) -> None:
    orders = set()
    for seed in range(6):
        run = founded(seeded(small, seed), contending(small, judge="chance"), mode="single")
        contenders = run.state.living
        right = {own.id: dict.fromkeys(range(60), own.id == 1) for own in contenders}
        standings = compete(run, "", contenders, right)
        orders.add(tuple(own.organelle.id for own in standings))
        losers = losers_of(run, standings)
        assert len(losers) == 2 and losers == standings[1:]
    assert len(orders) > 2


def test_what_was_practised_in_common_counts(small: Any) -> None:
    run = founded(small, contending(small), mode="single")
    contenders = run.state.living
    practised = {own.id: dict.fromkeys((*range(30), 100 + own.id), own.id == 2) for own in contenders}
    standings = compete(run, "", contenders, practised)
    assert standings[0].organelle.id == 2 and [own.p <= 1e-6 for own in standings] == [False, True, True]
    assert all(len(own.right) == 40 for own in standings)
    asked = run.state.meter.accounts["selection"]
    assert asked.flops == pytest.approx(3 * 10 * run.task.prices.unit_flops, rel=0.5)


def test_no_contender_is_asked_for_what_one_remembers(small: Any) -> None:
    run = founded(small, contending(small), mode="single")
    first, *others = run.state.living
    left = 12
    for item in range(left, len(run.task.items)):
        run.state.remember(first, Memory(item, (1,), 1.0), 10_000)
    standings = compete(run, "", [first, *others], {})
    assert [len(own.right) for own in standings] == [left] * (1 + len(others))


def test_where_all_remember_everything_they_are_asked_for_that(small: Any) -> None:
    run = founded(small, contending(small), mode="single")
    contenders = run.state.living
    left = 12  # items that nobody remembers
    for own in contenders:
        for item in range(left, len(run.task.items)):
            run.state.remember(own, Memory(item, (1,), 1.0), 10_000)
    unaware = compete(run, "", contenders, {})
    assert all(len(own.right) == 40 for own in unaware)
    practised = {own.id: dict.fromkeys(range(left), own.id == 2) for own in contenders}
    standings = compete(run, "", contenders, practised)
    assert standings[0].organelle.id == 2 and all(len(own.right) == 40 for own in standings)


def test_a_contest_without_any_item_is_decided_by_lot(small: Any) -> None:
    best = set()
    for seed in range(8):
        run = founded(seeded(small, seed), contending(small), mode="single")
        contenders = run.state.living
        for item in range(len(run.task.items)):  # each is known to one, and none to all
            run.state.remember(contenders[item % 3], Memory(item, (1,), 1.0), 10_000)
        standings = compete(run, "", contenders, {})
        assert all(len(own.right) == 0 for own in standings)
        best.add(standings[0].organelle.id)
    assert len(best) > 1


def test_nobody_takes_the_place_of_who_retired(small: Any) -> None:
    """Two of three have learned and the third never did."""
    run = founded(small, contending(small), mode="single")
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0, 1, 2]
    for own in run.state.living[:2]:
        run.state.teach(own)
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0, 1]
    run.state.retire(run.state.organelles[1], "beaten")
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0]
    child = succeed(run, run.state.organelles[0], run.state.organelles[2], 0)
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0, child.id]
