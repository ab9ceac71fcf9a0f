"""The sum of the learners goes on learning, on what they remember. Added up, adapters that learned apart disturb each
other, the more the longer they have learned (docs/pilots).
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from evolora_core.engine.meter import Meter
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import Batch, StackedAdamW, build_batch, train_step
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.run import Run


def rehearsed(run: Run, adapter: Adapter, parents: Sequence[Organelle], meter: Meter) -> Adapter:
    """The adapter after AdamW steps on memories of its parents, equally many of each, at the geometric mean of their
    first learning rates, which falls to zero. `meter` is charged for at most `assimilation.rehearsal` of what the run
    has spent.
    """
    started = time.perf_counter()
    task, plasticity = run.task, run.config.plasticity
    knowing = [parent for parent in parents if run.state.buffers[parent.id]]
    if not knowing:
        return adapter
    budget = int(run.config.assimilation.rehearsal * run.state.meter.total())
    rate = run.rule.rate(plasticity) * float(np.exp(np.mean(np.log([parent.learning_rate for parent in parents]))))
    population = Population.empty(task.host, 1, adapter.rank, scale=adapter.scale)
    population.put(0, adapter)
    optimizer = StackedAdamW(population, plasticity.betas, plasticity.weight_decay)
    spent, tokens = 0, 0
    for batch in _batches(run, knowing):
        flops = int(task.flops.train_flops(batch.lengths, batch.answer_lengths, adapter.rank).sum())
        if spent + flops > budget:
            break
        rates = torch.tensor([rate * (1 - spent / budget)])
        train_step(task.host, population, batch, optimizer, rates, plasticity.max_grad_norm)
        spent, tokens = spent + flops, tokens + int(batch.lengths.sum())
    meter.add("update", flops=spent, tokens=tokens, seconds=time.perf_counter() - started)
    return population.get(0)


def _batches(run: Run, parents: Sequence[Organelle]) -> Iterator[Batch]:
    """Memories for slot 0, equally many of each of these, without end."""
    draws = [(run.state.buffers[parent.id], run.stream(parent.id, "rehearse the sum")) for parent in parents]
    each = max(1, run.regime.rows(run.config.plasticity) // len(parents))
    alike = np.ones(len(run.task.prompts))
    while True:
        memories = [memory for buffer, draw in draws for memory in buffer.draw(each, draw, alike)]
        prompts = [run.task.prompts[memory.item] for memory in memories]
        answers = [[*memory.tokens, run.task.host.template.end] for memory in memories]
        yield build_batch(run.task.host, prompts, answers, [0] * len(memories), np.ones(len(memories)))
