"""Three-factor updates without gradients: traces of what each module read and wrote while the learner answered, times
what the answer was worth more than expected.

The expectation is a running mean reward of the item's family. The updates are in `population/hebbian.py`.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from evolora_core.lora.population.hebbian import hebbian_flops, hebbian_step
from evolora_core.lora.population.train import Batch, build_batch
from evolora_core.searches.adapters.ecology.learning.asking import samples
from evolora_core.searches.adapters.ecology.learning.on_policy import Lesson, Objective, practise, rewards_of
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.run import Answers, Rule, Run
from evolora_core.searches.adapters.settings.ecology import PlasticityConfig


def learn(run: Run, groups: Sequence[Group], answers: Answers) -> None:
    """Take the generation's steps of the learners over their own samples."""
    practise(run, groups, answers, surprises(run, groups, answers), Objective(plain, step))


def surprises(run: Run, groups: Sequence[Group], answers: Answers) -> list[np.ndarray]:
    """Reward of every answer less the running mean of its family, which then moves on."""
    state, rewards = run.state, rewards_of(answers)
    known = run.task.families
    families = np.array([known.index(run.task.items[group.item].family) for group in groups], dtype=np.int64)
    worths = [own - state.baselines[family] for own, family in zip(rewards, families, strict=True)]
    counts = np.bincount(families, [len(own) for own in rewards], len(known))
    right = np.bincount(families, [own.sum() for own in rewards], len(known))
    asked = counts > 0
    state.expect(asked, right[asked] / counts[asked], run.config.curriculum.smoothing)
    return worths


def plain(run: Run, learners: Sequence[Organelle], lessons: Sequence[Lesson]) -> Batch:
    """All lessons, weighted by what they are worth."""
    prompts = [run.task.prompts[lesson.item] for lesson in lessons]
    slots = np.array([lesson.learner.slot for lesson in lessons])
    worths = np.array([lesson.worth for lesson in lessons])
    return build_batch(run.task.host, prompts, [lesson.sampled.tokens for lesson in lessons], slots, worths)


def step(run: Run, batch: Batch, rates: Tensor) -> tuple[Tensor, np.ndarray]:
    """One update of the learners, whose answers were drawn at their own temperatures."""
    task, state, config = run.task, run.state, run.config.plasticity
    temperatures = torch.ones(len(state.practice))
    for organelle in state.living:
        temperatures[organelle.slot] = organelle.temperature
    ranks = state.population.ranks_of(batch.slots.numpy(force=True))
    done = hebbian_step(
        task.host, state.population, batch, rates, temperatures, config.max_grad_norm, config.trace_decay
    )
    return done, hebbian_flops(task.host, task.flops, batch, ranks)


def rate(config: PlasticityConfig) -> float:
    """Its own: an update is no gradient."""
    return config.hebbian_rate


RULE = Rule(
    "three-factor rule with eligibility traces (arXiv 1801.05219) and a broadcast error (as in e-prop)",
    act=partial(samples, sampled=True),
    learn=learn,
    rate=rate,
)
