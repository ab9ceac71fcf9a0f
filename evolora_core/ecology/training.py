"""Who learns, the steps of all learners at once, and who pays for them."""

import time
from collections.abc import Collection, Iterable

import numpy as np
import torch

from evolora_core.ecology.ledger import SINK
from evolora_core.ecology.state import Organelle, State, incumbents
from evolora_core.ecology.world import World
from evolora_core.population.hebbian import hebbian_flops, hebbian_step
from evolora_core.population.train import Batch, train_step


def learners_of(world: World, state: State, able: Collection[int]) -> list[tuple[Organelle, int]]:
    """(learner, its rows in one step): in every niche one organelle learns, of the `able` (ids), from what all of the
    niche have found, or from its own answers if the rule is on policy.

    All of a niche explore and sell what they find; if all learned from it too, each would learn a fraction of what the
    same compute teaches one. It stays the learner while it lives, or until a merged child takes its place: skills from
    practice are too noisy to change horses by. Who cannot pay is stood in for until it can. The rows go to the niches
    by credit.
    """
    config = world.config.plasticity
    if world.mode == "single":
        return [(organelle, config.single_batch_rows) for organelle in state.living if organelle.id in able]
    credit = world.credit(state)

    def fitness(organelle: Organelle) -> tuple:
        """Of those that never learned: who has most credit; who could take up most."""
        return credit[organelle.slot], organelle.rank, -organelle.id

    solvent = [o for o in world.awake(state) if o.id in able and state.ledger.balance(o.id) > 0]
    best = {organelle.niche: organelle for organelle in sorted(solvent, key=fitness)} | incumbents(solvent)
    chosen = sorted(best.values(), key=lambda organelle: organelle.id)
    own = credit[[organelle.slot for organelle in chosen]]
    shares = np.maximum(np.rint(config.batch_rows * own / own.sum()), 1) if chosen else []
    return [(organelle, int(rows)) for organelle, rows in zip(chosen, shares, strict=True)]


def train(world: World, state: State, learners: list[Organelle], decay: np.ndarray, batches: Iterable[Batch]) -> None:
    """One step of the learners for each factor of their learning rates in `decay`, each on the next batch; charged to
    their accounts. NaN retires its organelle.
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
            done = train_step(
                world.host, state.population, batch, state.optimizer, rates * factor, config.max_grad_norm
            )
            flops = world.flops.train_flops(batch.lengths, batch.answer_lengths, own)
        broken |= {o.id for o in learners if not torch.isfinite(done[o.slot])}
        np.add.at(spent, batch.slots.numpy(force=True), flops)
        tokens += int(batch.lengths.sum())
    for organelle in learners:
        charge(world, state, organelle, int(spent[organelle.slot]))
        if organelle.id in broken:
            state.retire(state.organelles[organelle.id], "not finite")
    state.meter.add("update", flops=int(spent.sum()), tokens=tokens, seconds=time.perf_counter() - started)


def charge(world: World, state: State, organelle: Organelle, flops: int) -> None:
    """Let a learner pay for its updates."""
    state.ledger.post(state.generation, "update", str(organelle.id), SINK, world.energy(flops))
