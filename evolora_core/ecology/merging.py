"""Assimilate: merge two organelles in ΔW space, and let the child live if it passes the paired test."""

import time
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from evolora_core.ecology import assimilation
from evolora_core.ecology.information import fisher_flops, fishers
from evolora_core.ecology.learning import affords
from evolora_core.ecology.ledger import SINK, micro
from evolora_core.ecology.selection import bear
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.verdict import observed
from evolora_core.ecology.world import World
from evolora_core.evaluation.grading import answer_items, charge
from evolora_core.population.merge import merge
from evolora_core.population.slots import HOST
from evolora_core.searches.adapters.settings.ecology import AssimilationConfig

ARMS = 4  # child, two parents and host answer in a test


@dataclass(frozen=True)
class Proposal:
    """A merge to be tried: each parent with the family that it brings in."""

    first: Organelle
    second: Organelle
    families: tuple[str, str]
    method: str
    gain: float


def assimilate(world: World, state: State) -> None:
    """Try the generation's merges. The parents share the cost of the tests and of the child's endowment."""
    config = world.config.assimilation
    if world.mode == "single" or (state.generation + 1) % config.every:
        return
    # In a test four answer up to the largest sample, and child and one parent as many again. Before it, each parent's
    # information may be asked for.
    worst = 1.25 * (ARMS + 2) * _design(config).sizes[-1] * world.calibration.unit_flops + 2 * fisher_flops(world)
    tried: set[frozenset[int]] = set()
    for attempt in range(config.attempts):
        draw = world.stream(state.generation, attempt, "assimilate")
        proposal = propose(world, state, draw, tried)
        if proposal is None or not affords(world, state, worst):
            return
        tried.add(frozenset((proposal.first.id, proposal.second.id)))
        _test_pair(world, state, proposal, draw)


def propose(world: World, state: State, draw: np.random.Generator, tried: set[frozenset[int]]) -> Proposal | None:
    """The two learners of different niches that would bring most to a child: each its lead over the other in the family
    of its niche.

    The smaller lead counts, since the child is on average half of it ahead of the better parent. It must be beyond half
    a standard error, over the bare host too, because a test is too expensive to spend on luck. Both must be able to pay
    for the longest test, with its information, and half an endowment: a parent that is poor after a test has a child
    that cannot learn. Two with a living child are not tried again.
    """
    config = world.config.assimilation
    price = micro(world.config.economy.endowment / 2 + ARMS / 2 * _design(config).sizes[-1])
    price += world.energy(fisher_flops(world))
    learners = [o for o in world.awake(state) if o.learned == state.generation and state.ledger.balance(o.id) >= price]
    gain, ahead = world.gain(state), world.gain(state) - world.doubt(state) / 2
    known = tried | {frozenset(o.parents) for o in state.living if o.origin == "merge"}
    pairs = []
    for first, second in permutations(learners, 2):
        own, other = world.families.index(first.niche), world.families.index(second.niche)
        leads = (
            ahead[first.slot, own] - max(gain[second.slot, own], 0.0),
            ahead[second.slot, other] - max(gain[first.slot, other], 0.0),
        )
        if min(leads) > 0 and leads[0] >= leads[1] and frozenset((first.id, second.id)) not in known:
            pairs.append((min(leads), first, second))
    if not pairs:
        return None
    _, first, second = max(pairs, key=lambda pair: pair[0])
    method = config.methods[draw.integers(len(config.methods))]
    return Proposal(first, second, (first.niche, second.niche), method, float(draw.choice(config.gains)))


def _test_pair(world: World, state: State, proposal: Proposal, draw: np.random.Generator) -> None:
    """Make the child in a free slot, test it, and keep it or clear the slot."""
    config = world.config.assimilation
    first, second = proposal.first, proposal.second
    slot = state.free_slots()[0]
    rank = max(first.rank, second.rank)
    weights = (proposal.gain / 2, proposal.gain / 2)
    parents = [state.population.get(first.slot), state.population.get(second.slot)]
    seed = int(draw.integers(2**31))
    known = fishers(world, state, [first, second]) if proposal.method == "fisher" else []
    state.population.put(slot, merge(parents, weights, rank, method=proposal.method, seed=seed, fishers=known))
    row = {
        "generation": state.generation,
        "child": None,
        "parent_a": first.id,
        "parent_b": second.id,
        "family": " + ".join(dict.fromkeys(proposal.families)),
        "depth": "all",
        "method": proposal.method,
        "gain": proposal.gain,
    }
    verdict, looks, answered = _superiority(world, state, proposal, slot, draw)
    accepted, reason = bool(verdict.accepted), verdict.reason
    drop = _worst_drop(world, state, proposal, slot, draw) if accepted else None
    if drop is not None and drop > config.margin:
        accepted, reason = False, "worse elsewhere"
    if accepted:
        # A learner's updates cost more than a founder's endowment: each parent gives a third of what the poorer has.
        share = min(state.ledger.balance(first.id), state.ledger.balance(second.id)) // 3
        parts = [(first, weights[0]), (second, weights[1])]
        child = bear(world, state, slot, rank, "merge", parts, draw, endowment=2 * share)
        # It has proved to be more than a noisy skill says: it takes the elder's place as learner.
        state.change(child, learned=state.generation, lessons=max(first.lessons, second.lessons))
        row["child"] = child.id
    else:
        state.population.clear(slot)
    state.events["assimilations"].append(
        row
        | {
            "n": answered,
            "looks": looks,
            "uplift": verdict.uplift,
            "p": verdict.p,
            "accepted": accepted,
            "worst_drop": drop,
            "reason": reason,
        }
    )


def _superiority(
    world: World, state: State, proposal: Proposal, slot: int, draw: np.random.Generator
) -> tuple[assimilation.Verdict, int, int]:
    """Is the child better than both parents and the host, on the parents' two families in equal parts?

    Returns (verdict, looks, items answered).
    """
    config = world.config.assimilation
    design = _design(config)
    pools = [draw.permutation(world.members_of(family)) for family in dict.fromkeys(proposal.families)]
    sample = np.stack([pool[: min(map(len, pools))] for pool in pools], axis=1).ravel()[: design.sizes[-1]]
    test = assimilation.PairedTest(design)
    outcomes = {arm: np.zeros(0, dtype=bool) for arm in (slot, proposal.first.slot, proposal.second.slot, HOST)}
    for index, size in enumerate(design.sizes):
        fresh = sample[len(outcomes[slot]) : size]
        arms = [arm for arm in outcomes if arm not in test.beaten]
        for arm, right in zip(arms, _answers(world, state, proposal, fresh, arms), strict=True):
            outcomes[arm] = np.concatenate([outcomes[arm], right])
        verdict = test.look(index, outcomes[slot], {arm: outcomes[arm] for arm in arms if arm != slot})
        if verdict.accepted is not None:
            return verdict, index + 1, len(outcomes[slot])
    raise AssertionError("the last look decides")


def _worst_drop(world: World, state: State, proposal: Proposal, slot: int, draw: np.random.Generator) -> float:
    """Bound of the accuracy lost on the union of the parents' cells, each against the parent that knows it better."""
    config = world.config.assimilation
    design = _design(config)
    practice = state.practice[[proposal.first.slot, proposal.second.slot], :, 0]
    union = np.flatnonzero(practice.max(axis=0) >= world.config.samples)
    if not len(union):  # what they have practised has faded, or is little
        union = np.flatnonzero(practice.max(axis=0) >= practice.max())
    per_cell = max(1, design.sizes[-1] // len(union))
    child, reference = [], []
    for cell in union:
        keeper = (proposal.first, proposal.second)[int(practice[:, cell].argmax())]
        members = world.members[cell]
        sample = draw.permutation(members)[:per_cell]
        answers = _answers(world, state, proposal, sample, [slot, keeper.slot])
        child.append(answers[0])
        reference.append(answers[1])
    return assimilation.worst_drop(np.concatenate(child), np.concatenate(reference), config.alpha)


def _design(config: AssimilationConfig) -> assimilation.Design:
    return assimilation.design_test(config.alpha, config.power, config.uplift, config.looks, config.discordance)


def _answers(world: World, state: State, proposal: Proposal, sample: np.ndarray, arms: list[int]) -> np.ndarray:
    """Greedy answers of every arm to the same items, `[arms, items]` right or wrong; charged to both parents."""
    started = time.perf_counter()
    items = [world.items[i] for i in sample]
    outcomes = answer_items(
        world.host, state.population, items * len(arms), np.repeat(arms, len(items)), decoding=world.decoding
    )
    outcomes = observed(outcomes, world.config.verifier_error, world.seed)
    charge(state.meter, "assimilation", outcomes, time.perf_counter() - started)
    cost = world.energy(sum(outcome.flops for outcome in outcomes))
    state.ledger.split(state.generation, "test", [str(proposal.first.id), str(proposal.second.id)], SINK, cost)
    return np.array([outcome.grade.correct for outcome in outcomes], dtype=bool).reshape(len(arms), len(items))
