"""Learn: the learners rehearse their memories, every step one forward and backward for all of them."""

import time
from collections.abc import Sequence

import numpy as np
import torch

from evolora_core.compute import Meter
from evolora_core.ecology.ledger import SINK
from evolora_core.ecology.selection import drop_broken
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.world import World
from evolora_core.plasticity import Buffer, Memory
from evolora_core.population.train import Batch, build_batch, train_step

LONGER = 1.1  # rows of a cooldown may be longer than those before it


def learners_of(world: World, state: State) -> list[tuple[Organelle, int]]:
    """(learner, its rows in one step): in every niche one organelle learns, from what all of the niche have found.

    All of a niche explore and sell what they find; if all learned from it too, each would learn a fraction of what the
    same compute teaches one. It stays the learner while it lives, or until a merged child takes its place: skills from
    practice are too noisy to change horses by. The rows go to the niches by credit.
    """
    config = world.config.plasticity
    if world.mode == "single":
        return [(organelle, config.single_batch_rows) for organelle in state.living if state.buffers[organelle.id]]
    credit = world.credit(state)

    def fitness(organelle: Organelle) -> tuple:
        """Who learned last; a merged child before its parent; who has most credit; who could take up most."""
        return organelle.learned, organelle.origin == "merge", credit[organelle.slot], organelle.rank, -organelle.id

    solvent = [o for o in world.awake(state) if state.buffers[o.id] and state.ledger.balance(o.id) > 0]
    best = {organelle.niche: organelle for organelle in sorted(solvent, key=fitness)}
    chosen = sorted(best.values(), key=lambda organelle: organelle.id)
    own = credit[[organelle.slot for organelle in chosen]]
    shares = np.maximum(np.rint(config.batch_rows * own / own.sum()), 1) if chosen else []
    return [(organelle, int(rows)) for organelle, rows in zip(chosen, shares, strict=True)]


def learn(world: World, state: State) -> None:
    """A few steps of every learner over its buffer, charged to its account. NaN retires its organelle."""
    steps = _steps(world, 1)
    _rehearse(world, state, np.ones(steps), "rehearse")


def cool(world: World, state: State) -> None:
    """The end of a run, or of a family's stay: more steps, in which the learning rate falls to zero: a share of those
    made until now, or, on a budget, what is left of it.

    A schedule planned to the end would need to know it. Constant first and then a short decay to zero gets nearly as
    far (Hägele et al. 2024, arXiv 2405.18392), and a run can be extended from before the decay.
    """
    generations = state.generation - state.phase_start
    steps = _steps(world, generations * world.config.plasticity.cooldown)
    made, updates = _steps(world, generations), state.meter.flops("update") - state.phase_updates
    if world.budget_flops is not None and steps and made:
        left = _limit(world, state) - state.meter.total()
        steps = max(steps, int(left / LONGER / (updates / made)))
    _rehearse(world, state, 1 - np.arange(1, steps + 1) / (steps + 1), "cool")
    state.events["ledger"] += state.ledger.drain()
    drop_broken(state)


def affords(world: World, state: State, more: float) -> bool:
    """Whether `more` FLOPs and the cooldown after them are within the budget, if there is one."""
    if world.budget_flops is None:
        return True
    updates = state.meter.flops("update") - state.phase_updates
    cooling = LONGER * world.config.plasticity.cooldown * (updates + more)
    return state.meter.total() + more + cooling <= _limit(world, state)


def phase_over(world: World, state: State) -> bool:
    """Whether the present family has had its share of the run; of the whole run, where all are there all the time."""
    if world.budget_flops is not None:
        return not affords(world, state, state.last_flops)
    return state.generation * max(len(world.arrivals), 1) >= world.config.generations * (state.phase + 1)


def arrive(world: World, state: State) -> None:
    """The next family comes; the one before is gone, and with it what was remembered of it: nothing is replayed."""
    state.phase += 1
    state.phase_start, state.phase_updates = state.generation, state.meter.flops("update")
    state.buffers = {number: Buffer() for number in state.buffers}


def _limit(world: World, state: State) -> float:
    """FLOPs that may be spent until the end of the present family's stay."""
    assert world.budget_flops is not None
    before = Meter.from_state(world.calibration.meter).total()
    return before + (world.budget_flops - before) * (state.phase + 1) / max(len(world.arrivals), 1)


def batch_of(world: World, flat: Sequence[tuple[Organelle, Memory]]) -> tuple[Batch, list[int]]:
    """A training batch of memories, and what each costs, forward and backward through its organelle, in FLOPs."""
    prompts = [world.prompts[memory.item] for _, memory in flat]
    answers = [[*memory.tokens, world.host.template.end] for _, memory in flat]
    slots = np.array([organelle.slot for organelle, _ in flat])
    answer_lengths = np.array([len(answer) for answer in answers])
    lengths = np.array([len(prompt) for prompt in prompts]) + answer_lengths
    flops = world.flops.train_flops(lengths, answer_lengths, np.array([organelle.rank for organelle, _ in flat]))
    return build_batch(world.host, prompts, answers, slots, np.ones(len(flat))), flops.tolist()


def _steps(world: World, generations: float) -> int:
    """Steps of a learner in so many generations. Both modes see equally many rows."""
    config = world.config.plasticity
    scale = config.batch_rows / config.single_batch_rows if world.mode == "single" else 1
    return max(1, round(config.steps * generations * scale)) if config.steps and generations else 0


def _rehearse(world: World, state: State, decay: np.ndarray, role: str) -> None:
    """One step of the learners for each factor of their learning rates in `decay`."""
    rows = {organelle.id: share for organelle, share in learners_of(world, state)} if len(decay) else {}
    if not rows:
        return
    learners = [state.change(state.organelles[number], learned=state.generation) for number in rows]
    started = time.perf_counter()
    draws = {organelle.id: world.stream(state.generation, organelle.id, role) for organelle in learners}
    rates = torch.zeros(len(state.practice))
    for organelle in learners:
        rates[organelle.slot] = world.rate(state, organelle)
    spent = dict.fromkeys(draws, 0)
    tokens = 0
    worth = world.interest(state)[world.cell_of]
    broken: set[int] = set()
    for factor in decay.tolist():
        flat = [
            (organelle, memory)
            for organelle in learners
            for memory in state.buffers[organelle.id].draw(rows[organelle.id], draws[organelle.id], worth)
        ]
        batch, flops = batch_of(world, flat)
        losses = train_step(
            world.host, state.population, batch, state.optimizer, rates * factor, world.config.plasticity.max_grad_norm
        )
        broken |= {o.id for o in learners if not torch.isfinite(losses[o.slot])}
        for (organelle, _), cost in zip(flat, flops, strict=True):
            spent[organelle.id] += cost
        tokens += int(batch.lengths.sum())
    for organelle in learners:
        state.ledger.post(state.generation, "update", str(organelle.id), SINK, world.energy(spent[organelle.id]))
        if organelle.id in broken:
            state.retire(state.organelles[organelle.id], "not finite")
    state.meter.add("update", flops=sum(spent.values()), tokens=tokens, seconds=time.perf_counter() - started)
