"""CMA-ES (Hansen and Ostermeier 2001) on the space's vectors, by pycma: what mergekit-evolve and Akiba et al. (arXiv
2403.13187) search with. It begins at the space's `start`, with a standard deviation of 1/6, as theirs do, and with
pycma's 4 + ⌊3 ln n⌋ candidates a generation.

Its state is not stored. It is replayed: asked and told, generation by generation, with the scores of the candidates so
far. pycma draws from `randn` alone, which here is the stream of the generation; NumPy's global state is neither read
nor written. Candidates that failed count as the worst so far.

Where pycma says that it has converged, or two generations in a row had no new genome (a space of few recipes), it
begins anew from a vector drawn uniformly between 0 and 1: budgets are equal, and who stands still wastes its own.
"""

import math
from collections.abc import Sequence
from typing import Any

import cma
import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal
from evolora_core.searches.merging.strategies.common import Memory

SIGMA = 1 / 6
STALE = 2  # generations without a new genome


class _Normal:
    """The function `randn` of pycma: numbers of the stream of the generation."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape)


class CmaEs:
    """The strategy."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._memory = Memory()
        self._begin()

    def _begin(self) -> None:
        self._generation = -1  # whose vectors were asked for
        self._normal = _Normal(stream(self.problem.seed, 0, 0, "cma"))
        self._search = self._new(self.problem.space.start())
        self._vectors: list[np.ndarray] = []
        self._ids: set[str] = set()
        self._stale = 0
        self._worst = -math.inf  # the greatest of the negative scores

    def _new(self, start: np.ndarray) -> Any:
        options = {
            "randn": self._normal,
            "seed": np.nan,  # leave NumPy's global state alone
            "popsize": 4 + int(3 * math.log(len(start))),
            "CMA_mirrors": 0,  # a fraction of mirrors would be rounded at random, by the global state
            "verbose": -10,  # at -10 and below it obeys no file of signals in the working directory either
            "verb_log": 0,
            "verb_disp": 0,
        }
        return cma.CMAEvolutionStrategy(start, SIGMA, options)

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]:
        """The genomes of the vectors that pycma asks for."""
        holds, added = self._memory.new(past)
        if not holds or generation < self._generation:
            self._begin()
            added = past
        by_generation: dict[int, list[Candidate]] = {}
        for candidate in added:
            by_generation.setdefault(candidate.generation, []).append(candidate)
        while self._generation < generation:
            if self._generation >= 0:
                self._tell(by_generation.get(self._generation, []))
            self._generation += 1
            self._ask()
        return [Proposal(self.problem.space.decode(vector), "sample") for vector in self._vectors]

    def _ask(self) -> None:
        self._normal.rng = stream(self.problem.seed, self._generation, 0, "cma")
        if self._stale >= STALE or self._search.stop():
            rng = stream(self.problem.seed, self._generation, 0, "restart")
            self._search, self._stale = self._new(rng.random(self.problem.space.dimension)), 0
        self._vectors = [np.array(vector) for vector in self._search.ask()]

    def _tell(self, told: list[Candidate]) -> None:
        """The scores of a generation; of what failed, or was never measured, the worst so far."""
        scores = {candidate.slot: candidate.score for candidate in told if candidate.score is not None}
        self._worst = max([self._worst, *(-score for score in scores.values())])
        none = self._worst if math.isfinite(self._worst) else 0.0
        self._search.tell(
            [vector.copy() for vector in self._vectors],
            [-scores[slot] if slot in scores else none for slot in range(len(self._vectors))],
        )
        ids = {candidate.genome.id for candidate in told}
        self._stale = 0 if ids - self._ids else self._stale + 1
        self._ids |= ids


def make(problem: Problem) -> CmaEs:
    """The strategy on a problem."""
    return CmaEs(problem)
