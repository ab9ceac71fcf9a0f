"""Hill climbing: all proposals of a generation are mutants of the best candidate so far.

The plain control of the evolutionary strategies. It has their first generation, their mutations and their elitism, and
lacks the population: no crossing, no second parent, nothing that items tell.
"""

from collections.abc import Sequence
from functools import partial

from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal, ranked
from evolora_core.searches.merging.strategies.common import (
    MANY,
    Known,
    Memory,
    drawn,
    founders,
    mutated,
    stream_of,
)


class HillClimbing:
    """The strategy."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known = Known()
        self._memory = Memory()
        self._best: list[Candidate] = []

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]:
        """Eight mutants of the best; draws, while nothing lives."""
        if generation == 0:
            return founders(self.problem)
        self._known.begin(past)
        holds, added = self._memory.new(past)
        self._best = ranked([*added, *(self._best if holds else [])])[:1]
        make = partial(drawn, self.problem)
        if self._best:
            make = partial(mutated, self.problem, self._best[0], self._known)
        return [self._known.take(make, stream_of(self.problem, generation, slot)) for slot in range(MANY)]


def make(problem: Problem) -> HillClimbing:
    """The strategy on a problem."""
    return HillClimbing(problem)
