"""Learning without gradients: perturbed copies of the learners answer, and each learner moves towards the
better copies.

Perturbing LoRA factors perturbs ΔW by low-rank matrices, as in EGGROLL (Sarkar et al. 2025, arXiv 2511.16652); the
copies of all learners are one population, so they answer together.
"""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evolora_core.ecology.rollout import Group, cell_chances
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.training import charge_learner, learners_of
from evolora_core.ecology.verdict import observed
from evolora_core.ecology.world import World
from evolora_core.evaluation.grading import answer_items, charge
from evolora_core.evaluation.outcome import Outcome
from evolora_core.plasticity.es import slope
from evolora_core.population.stack import Population


@dataclass(frozen=True)
class Attempt:
    """One step of a learner: the copies' noise `[pairs, D]`, and the items that each copy answers."""

    learner: Organelle
    noise: Tensor
    items: list[int]


def perturb(world: World, state: State, groups: list[Group], steps: int) -> None:
    """Take `steps` steps of evolution strategies for the learners among the organelles that took part.

    In a step all copies of a learner answer the same new items of its niche, as many as it would have training rows.
    Rewards are right answers; partial credit is never learned from.
    """
    chosen = learners_of(world, state, {group.organelle.id for group in groups}) if steps else []
    if not chosen:
        return
    learners = [state.teach(organelle) for organelle, _ in chosen]
    draws = [world.stream(state.generation, organelle.id, "perturb") for organelle in learners]
    slots = torch.tensor([organelle.slot for organelle in learners], device=state.population.device)
    rates = torch.tensor([world.rate(state, organelle) for organelle in learners], device=state.population.device)
    spent = np.zeros(len(learners), dtype=np.int64)
    for _ in range(steps):
        started = time.perf_counter()
        attempts = [
            _attempt(world, state, organelle, rows, draw)
            for organelle, (_, rows), draw in zip(learners, chosen, draws, strict=True)
        ]
        answers = _ask(world, state, attempts)
        charge(state.meter, "rollout", [o for own in answers for o in own], time.perf_counter() - started)
        spent += [sum(outcome.flops for outcome in own) for own in answers]
        slopes = [_slope(attempt, own) for attempt, own in zip(attempts, answers, strict=True)]
        able = [place for place, found in enumerate(slopes) if found is not None]
        if able:
            ascent = torch.stack([found for found in slopes if found is not None])
            state.optimizer.step(slots[able], -ascent, rates[able])
    for organelle, flops in zip(learners, spent.tolist(), strict=True):
        charge_learner(world, state, organelle, flops)


def _attempt(world: World, state: State, organelle: Organelle, rows: int, draw: np.random.Generator) -> Attempt:
    """Standard normal noise within the learner's rank, and items from the cells that it practises."""
    own = state.population
    drawn = draw.standard_normal((world.config.plasticity.pairs, own.weights.shape[1]), np.float32)
    noise = torch.from_numpy(drawn).to(own.device) * own.rank_mask(own.ranks.new_tensor([organelle.slot]))
    cells = draw.choice(len(world.cells), size=rows, p=cell_chances(world, state, organelle.niche))
    items = [int(draw.choice(world.members[cell])) for cell in cells]
    return Attempt(organelle, noise, items)


def _ask(world: World, state: State, attempts: list[Attempt]) -> list[list[Outcome]]:
    """The copies' greedy answers: for each attempt, those of θ + σε to all its items, pair by pair, then of θ - σε."""
    own, config = state.population, world.config.plasticity
    copies = 2 * config.pairs
    tried = Population.empty(world.host, copies * len(attempts), own.max_rank, scale=own.scale)
    for number, attempt in enumerate(attempts):
        part = slice(number * copies, (number + 1) * copies)
        tried.ranks[part] = own.ranks[attempt.learner.slot]
        tried.weights[part] = own.weights[attempt.learner.slot] + config.sigma * torch.cat(
            [attempt.noise, -attempt.noise]
        )
    asked = [item for attempt in attempts for _ in range(copies) for item in attempt.items]
    sizes = np.array([len(attempt.items) for attempt in attempts])
    slots = np.repeat(np.arange(tried.capacity), np.repeat(sizes, copies))
    outcomes = answer_items(world.host, tried, [world.items[i] for i in asked], slots, decoding=world.decoding)
    outcomes = observed(outcomes, world.config.verifier_error, world.seed)
    ends = np.cumsum(sizes * copies)
    return [outcomes[end - count : end] for end, count in zip(ends, sizes * copies, strict=True)]


def _slope(attempt: Attempt, answers: list[Outcome]) -> Tensor | None:
    """The direction in which the copies' shares of right answers rise."""
    right = np.array([outcome.grade.correct for outcome in answers], dtype=np.float32)
    return slope(right.reshape(2 * len(attempt.noise), -1).mean(axis=1), attempt.noise)
