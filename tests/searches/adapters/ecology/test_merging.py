"""A merge on the shipped nano host whose outcome is known: both parents have one skill and opposite faults."""

from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import change, founded

from evolora_core.language.families.registry import gold
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.merge import merge
from evolora_core.searches.adapters.ecology.ledger import micro
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.pace import LONGER
from evolora_core.searches.adapters.ecology.phases import merging
from evolora_core.searches.adapters.ecology.phases.merging import fisher_flops, fishers
from evolora_core.searches.adapters.ecology.run import Run


def run_of(small: Any) -> Run:
    """The small ecology with a test that is large enough to see the skill."""
    config = small.config.model_copy(
        update={"assimilation": small.config.assimilation.model_copy(update={"uplift": 0.1, "alpha": 0.2})}
    )
    run: Run = founded(small, config)
    return run


def with_fault(skill: Adapter, sign: float) -> Adapter:
    """The skill plus (or minus) the same random ΔW of rank 2, large enough to spoil most answers."""
    draw = np.random.default_rng(1)
    fault = Adapter(
        2,
        skill.scale,
        {n: torch.from_numpy(draw.normal(0, 0.12, tuple(A.shape)).astype(np.float32)) for n, A in skill.A.items()},
        {n: torch.from_numpy(draw.normal(0, 0.12, tuple(B.shape)).astype(np.float32)) for n, B in skill.B.items()},
    )
    return merge([skill, fault], [1.0, sign], 4)


def test_an_accepted_child_lives_and_is_paid_for(small: Any, skill: Any) -> None:
    run = run_of(small)
    state = run.state
    cell = run.task.cells.index(("json_repair", "short"))
    for slot, sign in ((0, 1.0), (1, -1.0)):
        state.population.put(slot, with_fault(skill, sign))
        change(state, state.organelles[slot], rank=4)
        state.practice[slot, cell, :2] = (12, 6)
    before = {name: state.ledger.balance(name) for name in ("0", "1")}
    try_first_two(run)

    (row,) = state.events["assimilations"]
    assert row["accepted"] and row["uplift"] > 0 and row["p"] < 0.4, row
    child = state.organelles[row["child"]]
    assert child.alive and child.origin == "merge" and child.parents == (0, 1)
    assert {(r["parent"], r["weight"]) for r in state.events["lineage"]} == {(0, 0.5), (1, 0.5)}
    # The faults cancel: ΔW of the child is the skill.
    assert float(state.population.delta_norms()[child.slot]) == pytest.approx(norm(skill), rel=1e-3)
    paid = sum(before[name] - state.ledger.balance(name) for name in before)
    tests = sum(r["amount"] for r in state.ledger.postings if r["entry"] == "test" and r["account"] == "sink")
    given = state.ledger.balance(child.id)
    assert given >= 60_000_000 and paid == tests + given
    assert given == max(60_000_000, 2 * (min(before[name] - tests // 2 for name in before) // 3))
    assert state.meter.accounts["assimilation"].flops > 0


def test_what_a_parent_rehearses_is_asked_last(small: Any) -> None:
    """It says how well the parent remembers, and the child has half of its weights."""
    run = run_of(small)
    first, second = run.state.living[:2]
    items = run.task.members_of("json_repair")
    for own, item in ((first, items[0]), (second, items[1])):
        run.state.remember(own, Memory(int(item), (1,), 1.0), 8)
    proposal = merging.Proposal(first, second, ("json_repair", "math"), "linear", 1.0)
    drawn = merging._drawn(run, proposal, items, np.random.default_rng(0))
    assert {*drawn[-2:]} == {*items[:2]} and sorted(drawn) == sorted(items)


def test_a_copy_of_a_parent_is_refused(small: Any, skill: Any) -> None:
    """Merging an adapter with itself gives itself, which is no better."""
    run = run_of(small)
    state = run.state
    cell = run.task.cells.index(("json_repair", "short"))
    for slot in (0, 1):
        state.population.put(slot, skill)
        change(state, state.organelles[slot], rank=2)
        state.practice[slot, cell, :2] = (12, 6)
    try_first_two(run)
    (row,) = state.events["assimilations"]
    assert not row["accepted"] and row["reason"] == "not ahead" and row["child"] is None
    assert len(state.organelles) == small.config.population


def test_mates_are_learners_that_lead_in_their_niches_and_can_pay_for_the_longest_trial(small: Any, skill: Any) -> None:
    run = run_of(small)
    state = run.state
    for slot in range(4):
        state.population.put(slot, skill)
        niche = run.task.families.index(change(state, state.organelles[slot], learned=0).niche)
        state.practice[slot, run.task.inside[niche], :2] = (100, 99)
        state.ledger.post(0, "reward", "sun", str(slot), 10**12)
    json, math = [[o.id for o in state.organelles if o.niche == niche] for niche in ("json_repair", "math")]
    state.practice[json[1], :, :2] -= (0, 1)  # the weaker one
    draw = np.random.default_rng(0)

    def mates() -> Any:
        proposal = merging.propose(run, draw, set())
        return proposal and {proposal.first.id, proposal.second.id}

    assert mates() in ({json[0], math[0]}, {json[0], math[1]})
    state.ledger.post(
        0, "answer", str(json[0]), "sink", state.ledger.balance(json[0]) - micro(200)
    )  # a newborn's purse
    assert mates() in ({json[1], math[0]}, {json[1], math[1]})
    change(state, state.organelles[json[1]], learned=-1)
    assert mates() is None


def by_fisher(small: Any, rows: int = 8, **more: Any) -> Run:
    """The small ecology, merging by Fisher."""
    changes = {"methods": ["fisher"], "fisher_rows": rows}
    config = small.config.model_copy(update={"assimilation": small.config.assimilation.model_copy(update=changes)})
    run: Run = founded(small, config, **more)
    return run


def remember(run: Run, organelle: Any, family: str, count: int) -> None:
    """Gold answers of the first items of a family, as if found."""
    for item in run.task.members_of(family)[:count].tolist():
        tokens = tuple(run.task.host.encode_answers([gold(run.task.items[item])])[0][:-1])
        run.state.remember(organelle, Memory(item, tokens, 1.0), 100)


def test_each_parent_pays_for_its_own_information_at_most_the_bound(small: Any, skill: Any) -> None:
    run = by_fisher(small)
    state = run.state
    first, second = state.organelles[:2]
    for organelle, family, count in ((first, "json_repair", 30), (second, "math", 3)):
        state.population.put(organelle.slot, skill)
        change(state, organelle, rank=2)
        remember(run, organelle, family, count)
    first, second = state.organelles[:2]
    before = [state.ledger.balance(o.id) for o in (first, second)]
    known = fishers(run, [second, first])  # in the order asked for
    paid = [held - state.ledger.balance(o.id) for held, o in zip(before, (first, second), strict=True)]
    assert all(row["entry"] == "test" for row in state.ledger.postings[-4:])
    assert sum(state.ledger.balances.values()) == 0

    expected = []
    for memories in (
        state.buffers[first.id].sample(8, run.stream(first.id, "fisher")),
        state.buffers[second.id].memories.values(),  # fewer than asked for: all of them
    ):
        answers = np.array([len(memory.tokens) + 1 for memory in memories])
        lengths = answers + [len(run.task.prompts[memory.item]) for memory in memories]
        expected.append(int(run.task.flops.train_flops(lengths, answers, 2).sum()))
    assert len(memories) == 3 and paid == [run.task.energy(flops) for flops in expected]
    assert state.meter.flops("assimilation") == sum(expected)
    assert max(expected) <= fisher_flops(run)

    again = fishers(run, [first, second])
    for name in known[0].outputs:
        assert torch.equal(known[0].outputs[name], again[1].outputs[name])
        assert torch.equal(known[1].inputs[name], again[0].inputs[name])
    assert not torch.equal(again[0].inputs[name], again[1].inputs[name])
    with pytest.raises(ValueError, match="organelle 2 remembers no answer"):
        fishers(run, [first, state.organelles[2]])


@pytest.mark.parametrize("method", ["weighted", "fisher"])
def test_a_budget_that_leaves_no_room_for_the_information_tries_no_merge_by_it(
    small: Any, skill: Any, method: str
) -> None:
    """Just enough for a trial of the weighted merge."""
    worst = 1.25 * (merging.ARMS + 2) * merging._design(small.config.assimilation).sizes[-1]
    worst *= small.prices.unit_flops
    state = by_fisher(small).state
    cooling = LONGER * small.config.plasticity.cooldown * (state.meter.flops("update") + worst)
    budget = round(state.meter.total() + worst + cooling) + 1
    run = by_fisher(small, budget=budget) if method == "fisher" else founded(small, budget=budget)
    state = run.state
    for organelle in state.organelles:
        state.population.put(organelle.slot, skill)
        change(state, organelle, learned=0, rank=2)
        remember(run, organelle, organelle.niche, 10)
        state.practice[organelle.slot, run.task.inside[run.task.families.index(organelle.niche)], :2] = (100, 99)
        state.ledger.post(0, "reward", "sun", str(organelle.id), 10**12)
    assert merging.propose(run, np.random.default_rng(0), set())
    merging.assimilate(run)
    assert len(state.events["assimilations"]) == (1 if method == "weighted" else 0)
    assert state.meter.total() <= budget


def test_who_cannot_pay_for_its_information_is_no_mate(small: Any, skill: Any) -> None:
    run, plain = by_fisher(small, rows=64), run_of(small)
    state = run.state
    for organelle in state.organelles:
        state.population.put(organelle.slot, skill)
        change(state, organelle, learned=0)
        state.practice[organelle.slot, run.task.inside[run.task.families.index(organelle.niche)], :2] = (100, 99)
        sizes = merging._design(run.config.assimilation).sizes
        economy = small.config.economy
        price = micro(economy.endowment / 2 + economy.ticket + (merging.ARMS + 2) / 2 * sizes[-1])
        state.ledger.post(0, "reward", "sun", str(organelle.id), price + run.task.energy(fisher_flops(run)) - 1)
        state.ledger.post(0, "reward", str(organelle.id), "sun", micro(economy.endowment))
    draw = np.random.default_rng(0)
    assert fisher_flops(plain) == 0 and merging.propose(run, draw, set()) is None
    for organelle in state.organelles:
        state.ledger.post(0, "reward", "sun", str(organelle.id), 1)
    proposal = merging.propose(run, draw, set())
    assert proposal is not None and proposal.method == "fisher"


def try_first_two(run: Run) -> None:
    """One trial of the average of the first two organelles, on JSON."""
    families = ("json_repair", "json_repair")
    first, second = run.state.organelles[:2]
    proposal = merging.Proposal(first, second, families, "weighted", 1.0)
    merging.try_pair(run, proposal, np.random.default_rng(2))


def norm(adapter: Adapter) -> float:
    """Frobenius norm of ΔW over all modules."""
    total = sum(float((adapter.scale * adapter.B[n] @ adapter.A[n]).square().sum()) for n in adapter.A)
    return float(total**0.5)
