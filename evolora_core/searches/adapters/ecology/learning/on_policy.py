"""Learning on policy: the learners take steps over their own answers of the generation, right and wrong ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evolora_core.lora.population.generate import Sampled
from evolora_core.lora.population.train import Batch
from evolora_core.searches.adapters.ecology.learning.learners import Step, gradient_step, learners_of, teach, train
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.run import Answers, Run


@dataclass(frozen=True)
class Lesson:
    """A sampled answer of a learner, and what it is worth: its advantage."""

    learner: Organelle
    item: int
    sampled: Sampled
    worth: float


@dataclass(frozen=True)
class Objective:
    """What a learner makes of its lessons: (run, learners, lessons) -> all of them as one batch, and how to step."""

    batch: Callable[[Run, Sequence[Organelle], Sequence[Lesson]], Batch]
    step: Step = gradient_step


def practise(
    run: Run, groups: Sequence[Group], answers: Answers, worths: Sequence[np.ndarray], objective: Objective
) -> None:
    """Take the generation's steps of the learners, each over its own answers, of which `worths` says the advantage, a
    number for each answer of a group.

    What others of the niche answered was drawn from another policy, so it is not learned from.
    """
    steps = run.regime.steps(run.config.plasticity, 1)
    own: dict[int, list[Lesson]] = {}
    for group, outcomes, values in zip(groups, answers, worths, strict=True):
        for outcome, worth in zip(outcomes, values.tolist(), strict=True):
            if worth and outcome.sampled is not None:  # what is too long to be asked has no answer
                lesson = Lesson(group.organelle, group.item, outcome.sampled, worth)
                own.setdefault(group.organelle.id, []).append(lesson)
    chosen = learners_of(run, own) if steps else []
    if not chosen:
        return
    learners = [organelle for organelle, _ in teach(run, chosen)]
    lessons: list[Lesson] = []
    orders = []
    for organelle, rows in sorted(chosen, key=lambda share: share.organelle.slot):  # as a batch sorts its rows
        draw = run.stream(organelle.id, "practise")
        order = step_order(len(own[organelle.id]), rows, steps, draw)
        used, places = np.unique(order, return_inverse=True)
        orders.append(len(lessons) + places.reshape(order.shape))
        lessons += [own[organelle.id][number] for number in used]
    whole = objective.batch(run, learners, lessons)
    batches = (whole.take(np.sort(rows)) for rows in np.concatenate(orders, axis=1))
    train(run, learners, [1.0] * steps, batches, objective.step)


def step_order(samples: int, rows: int, steps: int, draw: np.random.Generator) -> np.ndarray:
    """Which of the samples each step goes over, `[steps, rows]`: all once in random order, then all again.

    If there are more than the steps can take, the rest are left out.
    """
    taken = draw.permutation(samples)[: rows * steps]
    rounds = -(-rows * steps // len(taken))
    return np.concatenate([taken, *(draw.permutation(taken) for _ in range(rounds - 1))])[: rows * steps].reshape(
        steps, rows
    )


def rewards_of(answers: Answers) -> list[np.ndarray]:
    """1 for each right answer of each group, 0 for the others."""
    return [np.array([outcome.grade.correct for outcome in outcomes], dtype=np.float64) for outcomes in answers]
