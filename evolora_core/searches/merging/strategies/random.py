"""Random search: genomes drawn from the space, none of them twice. What every other strategy has to beat."""

from collections.abc import Sequence

from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal
from evolora_core.searches.merging.strategies.common import MANY, Known, drawn, stream_of

TRIES = 10_000  # draws without a new genome, after which the space is taken for exhausted


class Random:
    """The strategy."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known = Known()

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]:
        """Eight new genomes; fewer, at last none, when the space has no more."""
        self._known.begin(past)
        proposals: list[Proposal] = []
        for slot in range(MANY):
            rng = stream_of(self.problem, generation, slot)
            for _ in range(TRIES):
                proposal = drawn(self.problem, rng)
                if proposal.genome not in self._known:
                    proposals.append(proposal)
                    self._known.add(proposal)
                    break
            else:
                break
        return proposals


def make(problem: Problem) -> Random:
    """The strategy on a problem."""
    return Random(problem)
