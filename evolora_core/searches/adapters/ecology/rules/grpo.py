"""Policy gradients relative to the group: what the samples of one item are worth, compared with one another.

As GRPO (arXiv 2402.03300), the mean reward of an organelle's own samples of an item is the baseline of each, so no
critic is needed and wrong answers teach too. As Dr. GRPO (arXiv 2503.20783, section 3), the difference is not divided
by the group's standard deviation: that would weigh items that are nearly always or nearly never solved the most, where
a right answer is often luck, and would no longer be the gradient of the expected reward.
"""

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from evolora_core.lora.population.samples import sampled_batch
from evolora_core.lora.population.train import Batch
from evolora_core.searches.adapters.ecology.learning.asking import samples
from evolora_core.searches.adapters.ecology.learning.learners import charge_learner
from evolora_core.searches.adapters.ecology.learning.on_policy import Lesson, Objective, practise, rewards_of
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.run import Answers, Rule, Run


def advantages(rewards: np.ndarray) -> np.ndarray:
    """Reward less the group's mean, `[samples]`; all 0 where all are right or all wrong, which teaches nothing."""
    result: np.ndarray = rewards - rewards.mean()
    return result


def learn(run: Run, groups: Sequence[Group], answers: Answers) -> None:
    """Take the generation's steps of the learners over their own samples."""
    worths = [advantages(own) for own in rewards_of(answers)]
    practise(run, groups, answers, worths, Objective(clipped))


def clipped(run: Run, learners: Sequence[Organelle], lessons: Sequence[Lesson]) -> Batch:
    """All lessons with the clipped objective. The bare host's reading of them, for the KL divergence, is charged with
    the update.
    """
    config = run.config.plasticity
    started = time.perf_counter()
    slots = np.array([lesson.learner.slot for lesson in lessons])
    batch = sampled_batch(
        run.task.host,
        [run.task.prompts[lesson.item] for lesson in lessons],
        [lesson.sampled for lesson in lessons],
        slots,
        np.array([lesson.learner.temperature for lesson in lessons]),
        np.array([lesson.worth for lesson in lessons]),
        clip=config.clip_ratio,
        kl=config.kl,
    )
    if config.kl:
        flops = run.task.flops.score_flops(batch.lengths, batch.answer_lengths)
        for organelle in learners:
            charge_learner(run, organelle, int(flops[slots == organelle.slot].sum()))
        seconds = time.perf_counter() - started
        run.state.meter.add("update", flops=int(flops.sum()), tokens=int(batch.lengths.sum()), seconds=seconds)
    return batch


RULE = Rule(
    "group-relative policy gradient (arXiv 2402.03300) without division by the deviation (arXiv 2503.20783)",
    act=partial(samples, sampled=True),
    learn=learn,
)
