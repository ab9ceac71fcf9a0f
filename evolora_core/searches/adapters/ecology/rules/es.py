"""Learning without gradients: perturbed copies of the learners answer, and each learner moves towards the
better copies.

Perturbing LoRA factors perturbs ΔW by low-rank matrices, as in EGGROLL (Sarkar et al. 2025, arXiv 2511.16652); the
copies of all learners are one population, so they answer together.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evolora_core.lora.answering.grading import charge
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.population.mirrored import slope
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.ecology.learning.asking import ask, samples
from evolora_core.searches.adapters.ecology.learning.learners import Share, charge_learner, learners_of, teach
from evolora_core.searches.adapters.ecology.merit import Merit, appraise, cell_chances
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.run import Answers, Rule, Run
from evolora_core.searches.adapters.settings.ecology import PlasticityConfig


@dataclass(frozen=True)
class Attempt:
    """One step of a learner: the copies' noise `[pairs, D]`, and the items that each copy answers."""

    learner: Organelle
    noise: Tensor
    items: list[int]


def learn(run: Run, groups: Sequence[Group], answers: Answers) -> None:
    """Take the generation's steps of evolution strategies for the learners among the organelles that took part.

    In a step all copies of a learner answer the same new items of its niche, as many as it would have training rows.
    Rewards are right answers; partial credit is never learned from.
    """
    state = run.state
    steps = run.regime.steps(run.config.plasticity, 1)
    shares = teach(run, learners_of(run, {group.organelle.id for group in groups})) if steps else []
    if not shares:
        return
    draws = [run.stream(organelle.id, "perturb") for organelle, _ in shares]
    slots = torch.tensor([organelle.slot for organelle, _ in shares], device=state.population.device)
    rates = torch.tensor([run.rate(organelle) for organelle, _ in shares], device=state.population.device)
    spent = np.zeros(len(shares), dtype=np.int64)
    for _ in range(steps):
        started = time.perf_counter()
        merit = appraise(run)  # again in each step: it depends on who has moved
        attempts = [attempt(run, merit, share, draw) for share, draw in zip(shares, draws, strict=True)]
        outcomes = ask_copies(run, attempts)
        charge(state.meter, "rollout", [o for own in outcomes for o in own], time.perf_counter() - started)
        spent += [sum(outcome.flops for outcome in own) for own in outcomes]
        slopes = [uphill(tried, own) for tried, own in zip(attempts, outcomes, strict=True)]
        able = [place for place, found in enumerate(slopes) if found is not None]
        if able:
            ascent = torch.stack([found for found in slopes if found is not None])
            state.optimizer.step(slots[able], -ascent, rates[able])
    for (organelle, _), flops in zip(shares, spent.tolist(), strict=True):
        charge_learner(run, organelle, flops)


def attempt(run: Run, merit: Merit, share: Share, draw: np.random.Generator) -> Attempt:
    """Standard normal noise within the learner's rank, and items from the cells that it practises."""
    own, organelle = run.state.population, share.organelle
    drawn = draw.standard_normal((run.config.plasticity.pairs, own.weights.shape[1]), np.float32)
    noise = torch.from_numpy(drawn).to(own.device) * own.rank_mask(own.ranks.new_tensor([organelle.slot]))
    chances = cell_chances(run, merit, organelle.niche)
    cells = draw.choice(len(run.task.cells), size=share.rows, p=chances)
    items = [int(draw.choice(run.task.members[cell])) for cell in cells]
    return Attempt(organelle, noise, items)


def ask_copies(run: Run, attempts: Sequence[Attempt]) -> Answers:
    """The copies' greedy answers: for each attempt, those of θ + σε to all its items, pair by pair, then of θ - σε."""
    own, config = run.state.population, run.config.plasticity
    copies = 2 * config.pairs
    tried = Population.empty(run.task.host, copies * len(attempts), own.max_rank, scale=own.scale)
    for number, attempt in enumerate(attempts):
        part = slice(number * copies, (number + 1) * copies)
        tried.ranks[part] = own.ranks[attempt.learner.slot]
        tried.weights[part] = own.weights[attempt.learner.slot] + config.sigma * torch.cat(
            [attempt.noise, -attempt.noise]
        )
    asked = [item for attempt in attempts for _ in range(copies) for item in attempt.items]
    sizes = np.array([len(attempt.items) for attempt in attempts])
    outcomes = ask(run, tried, asked, np.repeat(np.arange(tried.capacity), np.repeat(sizes, copies)))
    ends = np.cumsum(sizes * copies)
    return [outcomes[end - count : end] for end, count in zip(ends, sizes * copies, strict=True)]


def uphill(attempt: Attempt, answers: Sequence[Outcome]) -> Tensor | None:
    """The direction in which the copies' shares of right answers rise."""
    right = np.array([outcome.grade.correct for outcome in answers], dtype=np.float32)
    return slope(right.reshape(2 * len(attempt.noise), -1).mean(axis=1), attempt.noise)


def row_cost(config: PlasticityConfig) -> int:
    """Two answers for each pair: both mirrored copies answer every row."""
    return 2 * config.pairs


RULE = Rule(
    "evolution strategies with mirrored (arXiv 1703.03864), low-rank perturbations (arXiv 2511.16652)",
    act=samples,
    learn=learn,
    row_cost=row_cost,
    charged="rollout",
)
