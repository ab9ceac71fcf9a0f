"""Assimilate: merge two organelles in ΔW space, and let the child live if it passes the paired test."""

import time
from dataclasses import dataclass

import numpy as np

from evolora_core.ecology import assimilation
from evolora_core.ecology.ledger import SINK, micro
from evolora_core.ecology.selection import bear
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.world import World
from evolora_core.evaluation.grading import answer_items, charge
from evolora_core.population.merge import merge

HOST = -1  # slot number of the bare host


@dataclass(frozen=True)
class Proposal:
    """A merge to be tried: each parent with the cell that it brings in. The cells may be the same."""

    first: Organelle
    second: Organelle
    cells: tuple[int, int]
    method: str
    gain: float


def assimilate(world: World, state: State) -> None:
    """Try the generation's merges. The parents share the cost of the tests and of the child's endowment."""
    config = world.config.assimilation
    if world.mode == "single" or (state.generation + 1) % config.every:
        return
    tried: set[tuple[int, int]] = set()
    for attempt in range(config.attempts):
        draw = world.stream(state.generation, attempt, "assimilate")
        proposal = propose(world, state, draw, tried)
        if proposal is None:
            return
        tried.add((proposal.first.id, proposal.second.id))
        _trial(world, state, proposal, draw)


def propose(world: World, state: State, draw: np.random.Generator, tried: set[tuple[int, int]]) -> Proposal | None:
    """Draw an elite of the archive that does better than the host; its mate knows best what the elite does not know.

    Both must be able to pay half an endowment. The mate brings the cell in which it is most ahead of the elite.
    """
    half = micro(world.config.economy.endowment / 2)
    moved = state.population.delta_norms()
    able = {
        organelle.id: organelle
        for organelle in state.living
        if state.ledger.balance(organelle.id) >= half and float(moved[organelle.slot]) > 0
    }
    skill = world.skill(state)
    known = state.practice[..., 0] >= world.config.samples
    better = known & (skill > world.host_accuracy)
    holders = [
        (state.archive.cell(index), able[elite.organelle])
        for index, elite in sorted(state.archive.elites.items())
        if elite.organelle in able
    ]
    holders = [(cell, holder) for cell, holder in holders if better[holder.slot, cell]]
    for cell, holder in (holders[i] for i in draw.permutation(len(holders))):
        ahead = np.where(better, skill - skill[holder.slot], -np.inf)
        mates = [o for o in able.values() if o.id != holder.id and not {(holder.id, o.id), (o.id, holder.id)} & tried]
        mates = [mate for mate in mates if ahead[mate.slot].max() > 0]
        if mates:
            mate = max(mates, key=lambda o: (ahead[o.slot].max(), -o.id))
            config = world.config.assimilation
            method = config.methods[draw.integers(len(config.methods))]
            cells = (cell, int(ahead[mate.slot].argmax()))
            return Proposal(holder, mate, cells, method, float(draw.choice(config.gains)))
    return None


def _trial(world: World, state: State, proposal: Proposal, draw: np.random.Generator) -> None:
    """Make the child in a free slot, test it, and keep or clear it."""
    config = world.config.assimilation
    first, second = proposal.first, proposal.second
    slot = state.free_slots()[0]
    rank = max(first.rank, second.rank)
    weights = (proposal.gain / 2, proposal.gain / 2)
    parents = [state.population.get(first.slot), state.population.get(second.slot)]
    state.population.put(slot, merge(parents, weights, rank, method=proposal.method, seed=int(draw.integers(2**31))))
    row = {
        "generation": state.generation,
        "child": None,
        "parent_a": first.id,
        "parent_b": second.id,
        "family": " + ".join(world.cells[cell][0] for cell in dict.fromkeys(proposal.cells)),
        "depth": " + ".join(world.cells[cell][1] for cell in dict.fromkeys(proposal.cells)),
        "method": proposal.method,
        "gain": proposal.gain,
    }
    verdict, looks, answered = _superiority(world, state, proposal, slot, draw)
    accepted, reason = bool(verdict.accepted), verdict.reason
    drop = _worst_drop(world, state, proposal, slot, draw) if accepted else None
    if drop is not None and drop > config.margin:
        accepted, reason = False, "worse elsewhere"
    if accepted:
        child = bear(world, state, slot, rank, "merge", [(first, weights[0]), (second, weights[1])], draw)
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
    """Is the child better than both parents and the host, on the parents' two cells in equal parts?

    Returns (verdict, looks, items answered).
    """
    config = world.config.assimilation
    design = assimilation.plan(config.alpha, config.power, config.uplift, config.looks)
    pools = [draw.permutation(world.members[cell]) for cell in dict.fromkeys(proposal.cells)]
    sample = np.stack([pool[: min(map(len, pools))] for pool in pools], axis=1).ravel()[: design.sizes[-1]]
    arms = [slot, proposal.first.slot, proposal.second.slot, HOST]
    outcomes = np.zeros((len(arms), 0), dtype=bool)
    for index, size in enumerate(design.sizes):
        fresh = sample[outcomes.shape[1] : size]
        outcomes = np.concatenate([outcomes, _answers(world, state, proposal, fresh, arms)], axis=1)
        verdict = assimilation.look(design, index, outcomes[0], list(outcomes[1:]))
        if verdict.accepted is not None:
            return verdict, index + 1, outcomes.shape[1]
    raise AssertionError("the last look decides")


def _worst_drop(world: World, state: State, proposal: Proposal, slot: int, draw: np.random.Generator) -> float:
    """Bound of the accuracy lost on the union of the parents' cells, each against the parent that knows it better."""
    config = world.config.assimilation
    design = assimilation.plan(config.alpha, config.power, config.uplift, config.looks)
    practice = state.practice[[proposal.first.slot, proposal.second.slot], :, 0]
    union = np.flatnonzero(practice.max(axis=0) >= world.config.samples)
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


def _answers(world: World, state: State, proposal: Proposal, sample: np.ndarray, arms: list[int]) -> np.ndarray:
    """Greedy answers of every arm to the same items, `[arms, items]` right or wrong; charged to both parents."""
    started = time.perf_counter()
    items = [world.items[i] for i in sample]
    outcomes = answer_items(
        world.host, state.population, items * len(arms), np.repeat(arms, len(items)), decoding=world.decoding
    )
    charge(state.meter, "assimilation", outcomes, time.perf_counter() - started)
    cost = world.energy(sum(outcome.flops for outcome in outcomes))
    state.ledger.split(state.generation, "test", [str(proposal.first.id), str(proposal.second.id)], SINK, cost)
    return np.array([outcome.grade.correct for outcome in outcomes], dtype=bool).reshape(len(arms), len(items))
