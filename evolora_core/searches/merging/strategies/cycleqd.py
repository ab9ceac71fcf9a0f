"""CycleQD (Kuroki et al., ICLR 2025, arXiv 2410.14735): an archive for each domain, which take turns.

In archive k the quality is the score on domain k, and the cell is that of the scores on the other domains, in 15 bins
between the least and the greatest of the candidates so far. Each generation parents come from the archive whose turn it
is; every child is measured on all domains and enters all archives. Parents are sampled with probability proportional to
n(quality) · Π n(descriptor), n scaling the elites' values to 0.5 to 1.3. A child is a crossing of two, mutated.

Choices: crossing and mutation are the space's, where the paper mixes task vectors by weights around 1 and mutates along
their singular vectors; the bounds of the bins move with what was seen, and archives are rebuilt with them; a domain
that has no weight in the score has no archive and no bins; a generation has eight children; only the archive whose turn
it is has to be built.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal
from evolora_core.searches.merging.strategies.common import (
    MANY,
    Known,
    Memory,
    crossed,
    drawn,
    founders,
    mutated,
    pick,
    stream_of,
)

BINS = 15
LEAST, GREATEST = 0.5, 1.3  # of what the sampling weights are products of


class CycleQD:
    """The strategy."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known = Known()
        self._memory = Memory()
        self._alive: list[Candidate] = []
        self._rows: list[np.ndarray] = []

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]:
        """Eight children of elites of the archive whose turn it is."""
        if generation == 0:
            return founders(self.problem)
        self._known.begin(past)
        holds, added = self._memory.new(past)
        if not holds:
            self._alive, self._rows = [], []
        self._alive += [candidate for candidate in added if candidate.score is not None]
        self._rows += [candidate.domains for candidate in added if candidate.score is not None]
        make = partial(self._child, *self._elites(generation)) if self._alive else partial(drawn, self.problem)
        return [self._known.take(make, stream_of(self.problem, generation, slot)) for slot in range(MANY)]

    def _elites(self, generation: int) -> tuple[list[Candidate], np.ndarray]:
        """The elites of the archive whose turn it is, and how probable each is as a parent."""
        scores = np.array(self._rows)[:, self.problem.domain_weights > 0]
        places = archive(scores, generation % scores.shape[1])
        return [self._alive[place] for place in places], sampling_weights(scores[places])

    def _child(self, elites: list[Candidate], weights: np.ndarray, rng: np.random.Generator) -> Proposal:
        first, second = (elites[pick(weights, rng)] for _ in range(2))
        if first is second:
            return mutated(self.problem, first, self._known, rng)
        return crossed(self.problem, first, second, self._known, 1.0, rng)


def archive(scores: np.ndarray, domain: int) -> np.ndarray:
    """The elites of a domain's archive: places in scores `[candidates, domains]`, one for each cell that has any, in
    the order of the cells. Of equal ones the earlier.
    """
    cells = np.zeros(len(scores), dtype=np.int64)
    for other in range(scores.shape[1]):
        if other != domain:
            cells = np.unique(cells * BINS + bins(scores[:, other]), return_inverse=True)[1]  # numbers stay small
    order = np.lexsort((np.arange(len(scores)), -scores[:, domain], cells))
    first = np.r_[True, np.diff(cells[order]) > 0]
    found: np.ndarray = order[first]
    return found


def bins(values: np.ndarray) -> np.ndarray:
    """The bin of each value `[n]`, 0 to 14, between the least and the greatest."""
    low, high = values.min(), values.max()
    if not high > low:
        return np.zeros(len(values), dtype=np.int64)
    found: np.ndarray = np.minimum((BINS * (values - low) / (high - low)).astype(np.int64), BINS - 1)
    return found


def sampling_weights(scores: np.ndarray) -> np.ndarray:
    """How probable each elite is as a parent, `[elites]`, of their scores `[elites, domains]`."""
    low, high = scores.min(axis=0), scores.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    scaled = LEAST + (GREATEST - LEAST) * (scores - low) / span
    found: np.ndarray = scaled.prod(axis=1)
    return found


def make(problem: Problem) -> CycleQD:
    """The strategy on a problem."""
    return CycleQD(problem)
