"""Assimilate: merge two organelles in ΔW space, and let the child live if it passes the paired test."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from evolora_core.lora.answering.grading import charge
from evolora_core.lora.population.fisher import Fisher, fishers_of
from evolora_core.lora.population.merge import merge
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.ecology.learning.asking import ask
from evolora_core.searches.adapters.ecology.learning.rehearsal import batch_of
from evolora_core.searches.adapters.ecology.ledger import SINK, micro
from evolora_core.searches.adapters.ecology.merit import appraise, skill_of
from evolora_core.searches.adapters.ecology.organelle import Birth, Organelle, Traits
from evolora_core.searches.adapters.ecology.pace import affords
from evolora_core.searches.adapters.ecology.phases.paired_test import (
    Design,
    PairedTest,
    Verdict,
    design_test,
    worst_drop,
)
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.settings.assimilation import AssimilationConfig

ARMS = 4  # child, two parents and host answer in a test


@dataclass(frozen=True)
class Proposal:
    """A merge to be tried: each parent with the family that it brings in."""

    first: Organelle
    second: Organelle
    families: tuple[str, str]
    method: str
    gain: float


def assimilate(run: Run) -> None:
    """Try the generation's merges. The parents share the cost of the tests and of the child's endowment."""
    config, attempts = run.config.assimilation, run.regime.attempts(run.config)
    if not attempts or (run.state.generation + 1) % config.every:
        return
    # In the tests four answer up to the largest sample, and child and one parent as many again. Before them, each
    # parent's information may be asked for.
    worst = 1.25 * (ARMS + 2) * _design(config).sizes[-1] * run.task.prices.unit_flops + 2 * fisher_flops(run)
    tried: set[frozenset[int]] = set()
    for attempt in range(attempts):
        draw = run.stream(attempt, "assimilate")
        proposal = propose(run, draw, tried)
        if proposal is None or not affords(run, worst):
            return
        tried.add(frozenset((proposal.first.id, proposal.second.id)))
        try_pair(run, proposal, draw)


def propose(run: Run, draw: np.random.Generator, tried: set[frozenset[int]]) -> Proposal | None:
    """The two learners of different niches that would bring most to a child: each its lead over the other in the family
    of its niche.

    The smaller lead counts, since the child is on average half of it ahead of the better parent. It must be beyond half
    a standard error, over the bare host too, because a test is too expensive to spend on luck. Both must be able to pay
    for the longest tests, with their information, half an endowment and the next ticket: a parent that is poor after a
    test has a child that cannot learn. Two with a living child are not tried again.
    """
    config, state, families = run.config.assimilation, run.state, run.task.families
    economy = run.config.economy
    price = micro(economy.endowment / 2 + economy.ticket + (ARMS + 2) / 2 * _design(config).sizes[-1])
    price += run.task.energy(fisher_flops(run))
    learners = [o for o in run.awake() if o.learned == state.generation and state.ledger.balance(o.id) >= price]
    merit = appraise(run)
    gain, ahead = merit.gain, merit.gain - merit.doubt / 2
    known = tried | {frozenset(o.parents) for o in state.living if o.origin == "merge"}
    pairs = []
    for first, second in permutations(learners, 2):
        own, other = families.index(first.niche), families.index(second.niche)
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


def try_pair(run: Run, proposal: Proposal, draw: np.random.Generator) -> None:
    """Make the child in a free slot, test it, and keep it or clear the slot."""
    state, config = run.state, run.config.assimilation
    first, second = proposal.first, proposal.second
    weight = proposal.gain / 2
    parents = [state.population.get(first.slot), state.population.get(second.slot)]
    seed = int(draw.integers(2**31))
    known = fishers(run, [first, second]) if proposal.method == "fisher" else []
    rank = max(first.rank, second.rank)
    slot = state.seat(merge(parents, (weight, weight), rank, method=proposal.method, seed=seed, fishers=known))
    verdict, looks, answered = _superiority(run, proposal, slot, draw)
    accepted, reason = bool(verdict.accepted), verdict.reason
    drop = _worst_drop(run, proposal, slot, draw) if accepted else None
    if drop is not None and drop > config.margin:
        accepted, reason = False, "worse elsewhere"
    child = _bear(run, proposal, slot, draw) if accepted else None
    if child is None:
        state.vacate(slot)
    row = {
        "generation": state.generation,
        "child": child and child.id,
        "parent_a": first.id,
        "parent_b": second.id,
        "family": " + ".join(dict.fromkeys(proposal.families)),
        "depth": "all",
        "method": proposal.method,
        "gain": proposal.gain,
        "n": answered,
        "looks": looks,
        "uplift": verdict.uplift,
        "p": verdict.p,
        "accepted": accepted,
        "worst_drop": drop,
        "reason": reason,
    }
    state.events.add("assimilations", [row])


def _bear(run: Run, proposal: Proposal, slot: int, draw: np.random.Generator) -> Organelle:
    """Let the child that stands in a slot live. It has proved to be more than a noisy skill says: it takes the elder's
    place as learner.
    """
    state, parents = run.state, (proposal.first, proposal.second)
    # A learner's updates cost more than a founder's endowment: each parent gives a third of what the poorer has.
    share = min(state.ledger.balance(parent.id) for parent in parents) // 3
    endowment = max(2 * share, micro(run.config.economy.endowment))
    traits = Traits(proposal.first.learning_rate, proposal.first.temperature)
    traits = traits.varied(run.config.variation.trait_sigma, draw)
    weighted = tuple((parent, proposal.gain / 2) for parent in parents)
    child = state.bear(slot, Birth("merge", weighted, parents, endowment, traits), run.memories)
    return state.succeed(child, parents)


def _superiority(run: Run, proposal: Proposal, slot: int, draw: np.random.Generator) -> tuple[Verdict, int, int]:
    """Is the child better than both parents and the host, on the parents' two families in equal parts?

    Returns (verdict, looks, items answered).
    """
    design = _design(run.config.assimilation)
    pools = [_drawn(run, proposal, run.task.members_of(own), draw) for own in dict.fromkeys(proposal.families)]
    sample = np.stack([pool[: min(map(len, pools))] for pool in pools], axis=1).ravel()[: design.sizes[-1]]
    test = PairedTest(design)
    outcomes = {arm: np.zeros(0, dtype=bool) for arm in (slot, proposal.first.slot, proposal.second.slot, HOST)}
    for index, size in enumerate(design.sizes):
        fresh = sample[len(outcomes[slot]) : size]
        arms = [arm for arm in outcomes if arm not in test.beaten]
        for arm, right in zip(arms, answers_of(run, proposal, fresh, arms), strict=True):
            outcomes[arm] = np.concatenate([outcomes[arm], right])
        verdict = test.look(index, outcomes[slot], {arm: outcomes[arm] for arm in arms if arm != slot})
        if verdict.accepted is not None:
            return verdict, index + 1, len(outcomes[slot])
    raise AssertionError("the last look decides")


def _worst_drop(run: Run, proposal: Proposal, slot: int, draw: np.random.Generator) -> float:
    """Bound on the accuracy lost over the union of the parents' cells, in each cell against the better parent."""
    config = run.config.assimilation
    design = _design(config)
    slots = [proposal.first.slot, proposal.second.slot]
    practice, skill = run.state.practice[slots, :, 0], skill_of(run)[slots]
    union = np.flatnonzero(practice.max(axis=0) >= run.config.samples)
    if not len(union):  # what they have practised has faded, or is little
        union = np.flatnonzero(practice.max(axis=0) >= practice.max())
    per_cell = max(1, design.sizes[-1] // len(union))
    child, reference = [], []
    for cell in union:
        keeper = (proposal.first, proposal.second)[int(skill[:, cell].argmax())]
        sample = _drawn(run, proposal, run.task.members[cell], draw)[:per_cell]
        answers = answers_of(run, proposal, sample, [slot, keeper.slot])
        child.append(answers[0])
        reference.append(answers[1])
    return worst_drop(np.concatenate(child), np.concatenate(reference), config.alpha)


def _drawn(run: Run, proposal: Proposal, items: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Items in random order, with those that a parent remembers at the end: they show memory, not skill."""
    known = [m.item for one in (proposal.first, proposal.second) for m in run.state.buffers[one.id].memories.values()]
    order = draw.permutation(items)
    rehearsed = np.isin(order, known)
    result: np.ndarray = np.concatenate([order[~rehearsed], order[rehearsed]])
    return result


def _design(config: AssimilationConfig) -> Design:
    return design_test(config.alpha, config.power, config.uplift, config.looks, config.discordance)


def answers_of(run: Run, proposal: Proposal, sample: np.ndarray, arms: Sequence[int]) -> np.ndarray:
    """Greedy answers of every arm to the same items, `[arms, items]` right or wrong; charged to both parents."""
    started = time.perf_counter()
    state = run.state
    outcomes = ask(run, state.population, np.tile(sample, len(arms)), np.repeat(arms, len(sample)))
    charge(state.meter, "assimilation", outcomes, time.perf_counter() - started)
    cost = run.task.energy(sum(outcome.flops for outcome in outcomes))
    state.ledger.split(state.generation, "test", [str(proposal.first.id), str(proposal.second.id)], SINK, cost)
    return np.array([outcome.grade.correct for outcome in outcomes], dtype=bool).reshape(len(arms), len(sample))


def fishers(run: Run, parents: Sequence[Organelle]) -> list[Fisher]:
    """The Fisher information of each parent, on verified answers drawn from its own memories; one forward and backward
    for all. The parents are charged for it.

    ValueError: a parent remembers nothing.
    """
    started = time.perf_counter()
    state = run.state
    flat = []
    for parent in parents:
        memories = state.buffers[parent.id].sample(run.config.assimilation.fisher_rows, run.stream(parent.id, "fisher"))
        if not memories:
            raise ValueError(f"organelle {parent.id} remembers no answer that could say what it knows")
        flat += [(parent, memory) for memory in memories]
    batch = batch_of(run, flat)
    slots = batch.slots.numpy(force=True)
    flops = run.task.flops.train_flops(batch.lengths, batch.answer_lengths, state.population.ranks_of(slots))
    informed = fishers_of(run.task.host, state.population, batch)
    found = dict(zip(sorted({parent.slot for parent in parents}), informed, strict=True))
    state.meter.add("assimilation", int(flops.sum()), int(batch.lengths.sum()), time.perf_counter() - started)
    for parent in parents:
        own = int(flops[slots == parent.slot].sum())
        state.ledger.post(state.generation, "test", str(parent.id), SINK, run.task.energy(own))
    return [found[parent.slot] for parent in parents]


def fisher_flops(run: Run) -> int:
    """FLOPs of one parent's Fisher at most: every row as long as item and answer can be. 0 if none is asked for."""
    config = run.config.assimilation
    if "fisher" not in config.methods:
        return 0
    answer = run.rule.longest(run.task) + 1
    row = run.task.flops.train_flops(max(map(len, run.task.prompts)) + answer, answer, max(run.config.ranks))
    return config.fisher_rows * int(row)
