"""A toy to search in: routes of 4 layers whose score is a random sum over genes and pairs, and strategies that play."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evolora_core.engine.rng import key, stream
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.spaces.base import Space
from evolora_core.searches.merging.spaces.routes import Routes
from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal, Strategy

Score = Callable[[Genome], float | None]
ITEMS, DOMAINS = 12, 3
SPACE = Routes(("a", "b", "c", "d"), 4, "base")  # one for all: it keeps the genomes that it made


@dataclass(frozen=True)
class Toy:
    """A landscape: scores `[models]`, by domain `[models, domains]`, and what is solved `[models, items]`."""

    space: Routes
    table: np.ndarray
    domains: np.ndarray
    solved: np.ndarray
    item_domains: np.ndarray


def toy_of(seed: int) -> Toy:
    """Each domain's score: a number for each gene at each position, and half as much for neighbours together."""
    rng, space = stream(seed, 0, 0, "toy"), SPACE
    genes = np.array([space.numbered(number) for number in range(space.models)])
    single, pairs = rng.standard_normal((DOMAINS, 4, 9)), rng.standard_normal((DOMAINS, 3, 9, 9)) / 2
    alone = np.sum([single[:, place, genes[:, place]] for place in range(4)], axis=0)
    together = np.sum([pairs[:, place, genes[:, place], genes[:, place + 1]] for place in range(3)], axis=0)
    domains = (alone + together).T - 10
    of = np.arange(ITEMS) % DOMAINS
    solved = domains[:, of] > -10 + rng.normal(1.5, 1.5, ITEMS)
    return Toy(space, domains.mean(axis=1), domains, solved, of)


def by_text(genome: Genome) -> float | None:
    """A score that looks random and fails at times."""
    number = key(0, 0, 0, genome.id) / 2**64
    return None if number < 0.15 else -10 * number


def measured(proposals: Sequence[Proposal], generation: int, first: int, score: Score) -> list[Candidate]:
    """The candidates of a generation."""
    found = []
    for slot, proposal in enumerate(proposals):
        value, rng = score(proposal.genome), stream(0, 0, 0, "toy items", proposal.genome.id)
        domains = np.full(DOMAINS, np.nan) if value is None else value + rng.standard_normal(DOMAINS)
        solved = rng.random(ITEMS) < 0.4 if value is not None else np.zeros(ITEMS, dtype=bool)
        found.append(Candidate(first + slot, generation, slot, proposal, value, domains, solved))
    return found


def play(strategy: Strategy, score: Score, generations: int) -> list[Candidate]:
    """All candidates of a run."""
    past: list[Candidate] = []
    for generation in range(generations):
        past += measured(strategy.propose(generation, past), generation, len(past), score)
    return past


def problem_of(space: Space, seed: int = 3, items: int = ITEMS) -> Problem:
    """The problem with toy items, all alike."""
    return Problem.of(space, seed, np.arange(items) % DOMAINS, np.ones(DOMAINS))
