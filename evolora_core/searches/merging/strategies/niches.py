"""M2N2: natural niches (Abrantes, Lange and Tang, arXiv 2508.16204).

An archive of 20. Its members share what they solve: fᵢ = Σⱼ sᵢⱼ / Σᵢ sᵢⱼ over items j that someone solves, so a
model that solves what few do is worth more than one that solves what all do. The first parent is drawn in proportion to
f, the mate in proportion to what it solves and the first does not (attraction). Their child, split at a point, enters
and the worst under sharing, the child counted, leaves.

Choices: the archive begins with the space's seeds and grows to 20; of models that are worth the same the lower score
leaves, of those the later; an equal genome enters once. The paper mutates only where it begins from scratch, and mixes
the two sides of a split by a share; recipes often have nothing to be mixed, so half of the children are mutated, and
those that are known already. An item counts as in the score, by its domain's weight. Eight children are made of one
archive and enter it one by one.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal
from evolora_core.searches.merging.strategies.common import (
    MANY,
    Known,
    Memory,
    attraction,
    crossed,
    drawn,
    founders,
    mutated,
    pick,
    stream_of,
)

SIZE = 20
MUTATED = 0.5  # probability that a child is mutated


class Niches:
    """The strategy."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known = Known()
        self._memory = Memory()
        self._archive: list[Candidate] = []

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]:
        """Eight children of the archive."""
        if generation == 0:
            return founders(self.problem)
        self._known.begin(past)
        archive = self.archive(past)
        solved = np.array([candidate.solved for candidate in archive], dtype=bool)
        shared = shared_fitness(solved, self.problem.item_weights) if archive else np.zeros(0)
        make = partial(self._child, archive, solved, shared)
        return [self._known.take(make, stream_of(self.problem, generation, slot)) for slot in range(MANY)]

    def archive(self, past: Sequence[Candidate]) -> list[Candidate]:
        """What is in the archive after these candidates."""
        holds, added = self._memory.new(past)
        if not holds:
            self._archive = []
        for candidate in added:
            ids = {member.genome.id for member in self._archive}
            if candidate.score is None or candidate.genome.id in ids:
                continue
            self._archive.append(candidate)
            if len(self._archive) > SIZE:
                solved = np.array([member.solved for member in self._archive], dtype=bool)
                shared = shared_fitness(solved, self.problem.item_weights)
                worst = min(
                    zip(shared.tolist(), self._archive, strict=True),
                    key=lambda own: (own[0], own[1].score or 0.0, -own[1].number),
                )
                self._archive.remove(worst[1])
        return self._archive

    def _child(
        self, archive: list[Candidate], solved: np.ndarray, shared: np.ndarray, rng: np.random.Generator
    ) -> Proposal:
        if not archive:
            return drawn(self.problem, rng)
        first = pick(shared, rng)
        if len(archive) == 1:
            return mutated(self.problem, archive[0], self._known, rng)
        pull = attraction(solved[first], solved, solved.sum(axis=0), self.problem.item_weights)
        if not pull.any():  # nobody else solves anything that it does not
            pull = np.ones(len(archive))
        pull[first] = 0.0
        return crossed(self.problem, archive[first], archive[pick(pull, rng)], self._known, MUTATED, rng)


def shared_fitness(solved: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """fᵢ `[members]` of which member solves which item, bool `[members, items]`, each of its weight `[items]`."""
    sums = solved.sum(axis=0)
    some = solved.any(axis=0)
    found: np.ndarray = solved[:, some] @ (weights[some] / sums[some])
    return found


def make(problem: Problem) -> Niches:
    """The strategy on a problem."""
    return Niches(problem)
