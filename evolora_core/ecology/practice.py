"""Learning on policy: the learners take steps over their own answers of the generation, right and wrong ones."""

import time
from dataclasses import dataclass

import numpy as np

from evolora_core.ecology.rollout import Group
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.training import charge_learner, learners_of, train
from evolora_core.ecology.world import World
from evolora_core.evaluation.outcome import Outcome
from evolora_core.plasticity.grpo import advantages, step_order
from evolora_core.population.generate import Sampled
from evolora_core.population.samples import sampled_batch
from evolora_core.population.train import Batch, build_batch


@dataclass(frozen=True)
class Lesson:
    """A sampled answer of a learner, and its advantage."""

    learner: Organelle
    item: int
    sampled: Sampled
    worth: float


def practise(world: World, state: State, groups: list[Group], answers: list[list[Outcome]], steps: int) -> None:
    """Take `steps` steps of the learners, each over its own answers of this generation.

    What others of the niche answered was drawn from another policy, so it is not learned from.
    """
    own: dict[int, list[Lesson]] = {}
    for group, outcomes, worths in zip(groups, answers, _worths(world, state, groups, answers), strict=True):
        for outcome, worth in zip(outcomes, worths.tolist(), strict=True):
            if worth and outcome.sampled is not None:  # what is too long to be asked has no answer
                lesson = Lesson(group.organelle, group.item, outcome.sampled, worth)
                own.setdefault(group.organelle.id, []).append(lesson)
    chosen = learners_of(world, state, own) if steps else []
    if not chosen:
        return
    learners = [state.teach(organelle) for organelle, _ in chosen]
    lessons: list[Lesson] = []
    orders = []
    for organelle, rows in sorted(chosen, key=lambda entry: entry[0].slot):  # as a batch sorts its rows
        draw = world.stream(state.generation, organelle.id, "practise")
        order = step_order(len(own[organelle.id]), rows, steps, draw)
        used, places = np.unique(order, return_inverse=True)
        orders.append(len(lessons) + places.reshape(order.shape))
        lessons += [own[organelle.id][number] for number in used]
    whole = _batch(world, state, learners, lessons)
    batches = (whole.take(np.sort(rows)) for rows in np.concatenate(orders, axis=1))
    train(world, state, learners, np.ones(steps), batches)


def _worths(world: World, state: State, groups: list[Group], answers: list[list[Outcome]]) -> list[np.ndarray]:
    """What every answer of every group was worth: its reward less the mean of its group, or, for the rule `hebbian`,
    less the running mean of its family, which then moves on.
    """
    rewards = [np.array([outcome.grade.correct for outcome in outcomes], dtype=np.float64) for outcomes in answers]
    if not world.rule.forward_only:
        return [advantages(own) for own in rewards]
    families = np.array([world.families.index(world.items[group.item].family) for group in groups], dtype=np.int64)
    worths = [own - state.baselines[family] for own, family in zip(rewards, families, strict=True)]
    counts = np.bincount(families, [len(own) for own in rewards], len(state.baselines))
    right = np.bincount(families, [own.sum() for own in rewards], len(state.baselines))
    asked = counts > 0
    means = right[asked] / counts[asked]
    state.baselines[asked] += world.config.curriculum.smoothing * (means - state.baselines[asked])
    return worths


def _batch(world: World, state: State, learners: list[Organelle], lessons: list[Lesson]) -> Batch:
    """All lessons as one batch. The bare host's reading of them, for the KL divergence, is charged with the update."""
    config = world.config.plasticity
    prompts = [world.prompts[lesson.item] for lesson in lessons]
    slots = np.array([lesson.learner.slot for lesson in lessons])
    worths = np.array([lesson.worth for lesson in lessons])
    if world.rule.forward_only:
        return build_batch(world.host, prompts, [lesson.sampled.tokens for lesson in lessons], slots, worths)
    started = time.perf_counter()
    batch = sampled_batch(
        world.host,
        prompts,
        [lesson.sampled for lesson in lessons],
        slots,
        np.array([lesson.learner.temperature for lesson in lessons]),
        worths,
        clip=config.clip_ratio,
        kl=config.kl,
    )
    if config.kl:
        flops = world.flops.score_flops(batch.lengths, batch.answer_lengths)
        for organelle in learners:
            charge_learner(world, state, organelle, int(flops[slots == organelle.slot].sum()))
        seconds = time.perf_counter() - started
        state.meter.add("update", flops=int(flops.sum()), tokens=int(batch.lengths.sum()), seconds=seconds)
    return batch
