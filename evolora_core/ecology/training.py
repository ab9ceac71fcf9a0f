"""Choose the learners, take one step of all of them at once, and charge each for its part."""

import time
from collections.abc import Collection, Iterable

import numpy as np
import torch

from evolora_core.ecology.ledger import SINK
from evolora_core.ecology.state import Organelle, State, incumbents
from evolora_core.ecology.world import World
from evolora_core.population.hebbian import hebbian_flops, hebbian_step
from evolora_core.population.train import Batch, train_step
from evolora_core.probes import reached


def learners_of(world: World, state: State, able: Collection[int]) -> list[tuple[Organelle, int]]:
    """(learner, its rows in one step): one organelle of each niche, among the `able` (ids).

    All organelles of a niche explore and sell what they find. Only one learns from it: if all did, each would get a
    fraction of the compute. An organelle stays the learner while it lives, or until a merged child takes its place,
    because skills from practice are too noisy to choose a new learner by. In a generation in which it cannot pay,
    another of its niche learns. The rows are shared out to the niches by credit.
    """
    config = world.config.plasticity
    if world.mode == "single":
        return [(organelle, config.single_batch_rows) for organelle in state.living if organelle.id in able]
    credit = world.credit(state)

    def fitness(organelle: Organelle) -> tuple[float, int, int]:
        """Order among organelles that never learned: by credit, then by rank."""
        return credit[organelle.slot], organelle.rank, -organelle.id

    solvent = [o for o in world.awake(state) if o.id in able and state.ledger.balance(o.id) > 0]
    best = {organelle.niche: organelle for organelle in sorted(solvent, key=fitness)} | incumbents(solvent)
    chosen = sorted(best.values(), key=lambda organelle: organelle.id)
    own = credit[[organelle.slot for organelle in chosen]]
    shares = np.maximum(np.rint(config.batch_rows * own / own.sum()), 1) if chosen else []
    return [(organelle, int(rows)) for organelle, rows in zip(chosen, shares, strict=True)]


def train(world: World, state: State, learners: list[Organelle], decay: np.ndarray, batches: Iterable[Batch]) -> None:
    """Take one step of all learners for each factor of the learning rate in `decay`, each on the next batch, and charge
    their accounts. An organelle whose weights become NaN retires.
    """
    started = time.perf_counter()
    config = world.config.plasticity
    rates, heat = torch.zeros(len(state.practice)), torch.ones(len(state.practice))
    for organelle in learners:
        rates[organelle.slot] = world.rate(state, organelle)
        heat[organelle.slot] = organelle.temperature
    ranks = state.population.ranks.numpy(force=True)
    spent, tokens = np.zeros(len(ranks), dtype=np.int64), 0
    broken: set[int] = set()
    for factor, batch in zip(decay.tolist(), batches, strict=False):
        state.steps += 1
        own = ranks[batch.slots.numpy(force=True)]
        if world.rule.forward_only:
            done = hebbian_step(
                world.host, state.population, batch, rates * factor, heat, config.max_grad_norm, config.trace_decay
            )
            flops = hebbian_flops(world.host, world.flops, batch, own)
        else:
            reached("update", population=state.population, batch=batch)
            done = train_step(
                world.host, state.population, batch, state.optimizer, rates * factor, config.max_grad_norm
            )
            flops = world.flops.train_flops(batch.lengths, batch.answer_lengths, own)
        broken |= {o.id for o in learners if not torch.isfinite(done[o.slot])}
        np.add.at(spent, batch.slots.numpy(force=True), flops)
        tokens += int(batch.lengths.sum())
    for organelle in learners:
        charge_learner(world, state, organelle, int(spent[organelle.slot]))
        if organelle.id in broken:
            state.retire(state.organelles[organelle.id], "not finite")
    state.meter.add("update", flops=int(spent.sum()), tokens=tokens, seconds=time.perf_counter() - started)


def charge_learner(world: World, state: State, organelle: Organelle, flops: int) -> None:
    """Charge a learner for its updates."""
    state.ledger.post(state.generation, "update", str(organelle.id), SINK, world.energy(flops))
