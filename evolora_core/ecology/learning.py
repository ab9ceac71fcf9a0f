"""Learn: all organelles rehearse their memories, every step one forward and backward for the whole population."""

import time

import numpy as np
import torch

from evolora_core.ecology.ledger import SINK
from evolora_core.ecology.state import State
from evolora_core.ecology.world import World
from evolora_core.population.train import build_batch, train_step


def learn(world: World, state: State) -> None:
    """A few steps over each solvent organelle's buffer, charged to its account. NaN retires its organelle."""
    config = world.config.plasticity
    rows, steps = config.batch_rows, config.steps
    if world.mode == "single":
        rows = config.single_batch_rows
        steps = max(1, round(steps * config.batch_rows * world.config.population / rows)) if steps else 0
    learners = [
        organelle
        for organelle in state.living
        if state.buffers[organelle.id] and (world.mode == "single" or state.ledger.balance(organelle.id) > 0)
    ]
    if not learners or not steps:
        return
    started = time.perf_counter()
    draws = {organelle.id: world.stream(state.generation, organelle.id, "rehearse") for organelle in learners}
    rates = torch.zeros(len(state.practice))
    for organelle in learners:
        rates[organelle.slot] = world.rate(organelle, state.generation)
    spent = dict.fromkeys(draws, 0)
    tokens = 0
    broken: set[int] = set()
    for _ in range(steps):
        memories = [(organelle, state.buffers[organelle.id].draw(rows, draws[organelle.id])) for organelle in learners]
        flat = [(organelle, memory) for organelle, own in memories for memory in own]
        prompts = [world.prompts[memory.item] for _, memory in flat]
        answers = [[*memory.tokens, world.host.template.end] for _, memory in flat]
        batch = build_batch(
            world.host, prompts, answers, np.array([organelle.slot for organelle, _ in flat]), np.ones(len(flat))
        )
        losses = train_step(world.host, state.population, batch, state.optimizer, rates, config.max_grad_norm)
        broken |= {o.id for o in learners if not torch.isfinite(losses[o.slot])}
        answer_lengths = np.array([len(answer) for answer in answers])
        lengths = np.array([len(prompt) for prompt in prompts]) + answer_lengths
        flops = world.flops.train_flops(lengths, answer_lengths, np.array([organelle.rank for organelle, _ in flat]))
        for position, organelle in enumerate(learners):
            spent[organelle.id] += int(flops[position * rows : (position + 1) * rows].sum())
        tokens += int(lengths.sum())
    for organelle in learners:
        state.ledger.post(state.generation, "update", str(organelle.id), SINK, world.energy(spent[organelle.id]))
        if organelle.id in broken:
            state.retire(state.organelles[organelle.id], "not finite")
    state.meter.add("update", flops=sum(spent.values()), tokens=tokens, seconds=time.perf_counter() - started)
