"""A merge on the shipped nano host whose outcome is known: both parents have one skill and opposite faults."""

import numpy as np
import pytest
import torch

from evolora_core.ecology import merging
from evolora_core.ecology.ledger import micro
from evolora_core.ecology.world import World, found
from evolora_core.families import gold
from evolora_core.population.adapter import Adapter
from evolora_core.population.merge import merge
from evolora_core.population.stack import Population
from evolora_core.population.train import StackedAdamW, build_batch, train_step


@pytest.fixture(scope="module")
def skill(small):
    """A rank-2 adapter that learned to sort JSON arrays from gold answers."""
    host = small.host
    items = [item for item in small.items if item.family == "json_repair"]
    population = Population.empty(host, 1, 2)
    population.init_slot(0, 2, np.random.default_rng(0))
    optimizer = StackedAdamW(population)
    prompts, answers = host.encode_prompts([i.prompt for i in items]), host.encode_answers([gold(i) for i in items])
    for step in range(24):
        rows = np.arange(step * 48, step * 48 + 48) % len(items)
        batch = build_batch(host, [prompts[r] for r in rows], [answers[r] for r in rows], [0] * 48, [1.0] * 48)
        train_step(host, population, batch, optimizer, torch.tensor([3e-3]), 1.0)
    return population.get(0)


def world_of(small):
    """The small ecology with a test that is large enough to see the skill."""
    config = small.config.model_copy(
        update={"assimilation": small.config.assimilation.model_copy(update={"uplift": 0.1, "alpha": 0.2})}
    )
    return World(small.host, small.items, config, small.decoding, 0, small.calibration, "ecology")


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


def test_an_accepted_child_lives_and_is_paid_for(small, skill):
    world = world_of(small)
    state = found(world)
    cell = world.cells.index(("json_repair", "short"))
    for slot, sign in ((0, 1.0), (1, -1.0)):
        state.population.put(slot, with_fault(skill, sign))
        state.change(state.organelles[slot], rank=4)
        state.practice[slot, cell] = (12, 6)
    before = {name: state.ledger.balance(name) for name in ("0", "1")}
    try_first_two(world, state)

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


def test_a_copy_of_a_parent_is_refused(small, skill):
    """Merging an adapter with itself gives itself, which is no better."""
    world = world_of(small)
    state = found(world)
    cell = world.cells.index(("json_repair", "short"))
    for slot in (0, 1):
        state.population.put(slot, skill)
        state.change(state.organelles[slot], rank=2)
        state.practice[slot, cell] = (12, 6)
    try_first_two(world, state)
    (row,) = state.events["assimilations"]
    assert not row["accepted"] and row["reason"] == "not ahead" and row["child"] is None
    assert len(state.organelles) == small.config.population


def test_mates_are_learners_that_lead_in_their_niches_and_can_pay_for_the_longest_trial(small, skill):
    world = world_of(small)
    state = found(world)
    for slot in range(4):
        state.population.put(slot, skill)
        niche = world.families.index(state.change(state.organelles[slot], learned=0).niche)
        state.practice[slot, world.inside[niche]] = (100, 99)
        state.ledger.post(0, "reward", "sun", str(slot), 10**12)
    json, math = [[o.id for o in state.organelles if o.niche == niche] for niche in ("json_repair", "math")]
    state.practice[json[1], :] -= (0, 1)  # the weaker one
    draw = np.random.default_rng(0)

    def mates():
        proposal = merging.propose(world, state, draw, set())
        return proposal and {proposal.first.id, proposal.second.id}

    assert mates() in ({json[0], math[0]}, {json[0], math[1]})
    state.ledger.post(
        0, "answer", str(json[0]), "sink", state.ledger.balance(json[0]) - micro(200)
    )  # a newborn's purse
    assert mates() in ({json[1], math[0]}, {json[1], math[1]})
    state.change(state.organelles[json[1]], learned=-1)
    assert mates() is None


def try_first_two(world, state):
    """One trial of the average of the first two organelles, on JSON."""
    families = ("json_repair", "json_repair")
    proposal = merging.Proposal(*state.organelles[:2], families, "weighted", 1.0)
    merging._trial(world, state, proposal, np.random.default_rng(2))


def norm(adapter: Adapter) -> float:
    """Frobenius norm of ΔW over all modules."""
    return sum(float((adapter.scale * adapter.B[n] @ adapter.A[n]).square().sum()) for n in adapter.A) ** 0.5
