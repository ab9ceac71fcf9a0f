"""The sum of the learners goes on learning, on what they remember. Added up, adapters that learned apart disturb each
other, the more the longer they have learned (docs/pilots).
"""

import time
from collections.abc import Sequence

import numpy as np
import torch

from evolora_core.engine.meter import Meter
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import Batch, StackedAdamW, build_batch, train_step
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.run import Run


def rehearsed(run: Run, adapter: Adapter, parents: Sequence[Organelle], meter: Meter) -> Adapter:
    """The adapter after AdamW steps on memories of its parents, equally many of each, at the run's learning rate, which
    falls to zero. `meter` is charged for at most `assimilation.rehearsal` of what the run has spent.
    """
    started = time.perf_counter()
    task, plasticity = run.task, run.config.plasticity
    budget = int(run.config.assimilation.rehearsal * run.state.meter.total())
    rate = run.rule.rate(plasticity)
    population = Population.empty(task.host, 1, adapter.rank, scale=adapter.scale)
    population.put(0, adapter)
    optimizer = StackedAdamW(population, weight_decay=plasticity.weight_decay)
    spent, tokens = 0, 0
    draws = {parent.id: run.stream(parent.id, "rehearse the sum") for parent in parents}
    while budget:
        batch = _batch(run, draws)
        if batch is None:
            break
        flops = int(task.flops.train_flops(batch.lengths, batch.answer_lengths, adapter.rank).sum())
        if spent + flops > budget:
            break
        rates = torch.tensor([rate * (1 - spent / budget)])
        train_step(task.host, population, batch, optimizer, rates, plasticity.max_grad_norm)
        spent, tokens = spent + flops, tokens + int(batch.lengths.sum())
    meter.add("update", flops=spent, tokens=tokens, seconds=time.perf_counter() - started)
    return population.get(0)


def _batch(run: Run, draws: dict[int, np.random.Generator]) -> Batch | None:
    """A batch of memories for slot 0, equally many of each organelle that has any; None if nobody has."""
    buffers = {own: run.state.buffers[own] for own in draws if run.state.buffers[own]}
    if not buffers:
        return None
    each = max(1, run.regime.rows(run.config.plasticity) // len(buffers))
    alike = np.ones(len(run.task.prompts))
    memories = [memory for own, buffer in buffers.items() for memory in buffer.draw(each, draws[own], alike)]
    prompts = [run.task.prompts[memory.item] for memory in memories]
    answers = [[*memory.tokens, run.task.host.template.end] for memory in memories]
    return build_batch(run.task.host, prompts, answers, [0] * len(memories), np.ones(len(memories)))
