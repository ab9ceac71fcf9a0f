"""The first system's protocol put right: eight recipes 2^3, then in each generation six mutants of the best two and two
children.

What differs from `evomerge_published.py`: mutations are the space's and act on the recipe; the best of the whole run
stays a parent (elitism); the two children are crossings of the best two with mates that solve what they do not (M2N2's
attraction, arXiv 2508.16204), instead of means of the worst six; no genome is proposed twice as far as a few tries
allow; and it goes on until the budget ends, since a plateau of three generations says little at eight candidates each.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile

import numpy as np

from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal, ranked
from evolora_core.searches.merging.strategies.common import (
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

BEST, MUTANTS, CHILDREN = 2, 3, 2


class EvoMerge:
    """The strategy."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known = Known()
        self._memory = Memory()
        self._best: Candidate | None = None

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]:
        """Six mutants and two children."""
        if generation == 0:
            return founders(self.problem)
        self._known.begin(past)
        pool = self._pool(generation, past)
        makers: list[Callable[[np.random.Generator], Proposal]] = [
            partial(mutated, self.problem, parent, self._known) for parent in pool[:BEST] for _ in range(MUTANTS)
        ]
        if len(pool) > 1:
            makers += [partial(self._child, pool, number) for number in range(CHILDREN)]
        makers = makers or [partial(drawn, self.problem)] * (BEST * MUTANTS + CHILDREN)  # nothing lives
        return [self._known.take(make, stream_of(self.problem, generation, slot)) for slot, make in enumerate(makers)]

    def _pool(self, generation: int, past: Sequence[Candidate]) -> list[Candidate]:
        """The last generation and the best of the run, ranked, each genome once."""
        holds, added = self._memory.new(past)
        best = ranked([*added, *([self._best] if holds and self._best else [])])[:1]
        self._best = best[0] if best else None
        last = takewhile(lambda candidate: candidate.generation == generation - 1, reversed(past))
        pool: dict[str, Candidate] = {}
        for candidate in ranked([*best, *last]):
            pool.setdefault(candidate.genome.id, candidate)
        return list(pool.values())

    def _child(self, pool: list[Candidate], number: int, rng: np.random.Generator) -> Proposal:
        """A crossing of the parent of that number with a mate."""
        parent = pool[number]
        others = [candidate for candidate in pool if candidate is not parent]
        solved = np.array([candidate.solved for candidate in others], dtype=bool)
        pull = attraction(parent.solved, solved, solved.sum(axis=0) + parent.solved, self.problem.item_weights)
        return crossed(self.problem, parent, others[pick(pull, rng)], self._known, 0.0, rng)


def make(problem: Problem) -> EvoMerge:
    """The strategy on a problem."""
    return EvoMerge(problem)
