"""What strategies share: their streams, the first generation, genomes that were measured already, running sums.

A strategy may remember what it computed of the candidates so far, if it computes it anew for others: `Memory` tells.
"""

import operator
from collections.abc import Callable, Sequence

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal

TRIES = 10  # times at most that a proposal is made because its genome is known
NEAR = 4  # mutations of one genome that are tried,
FAR = 6  # and mutations of the mutant, while all are known
MANY = 8  # proposals of a generation, for strategies whose source has no generations


class Memory:
    """How many of the candidates were seen before, in this order. Others than those seen: it begins anew."""

    def __init__(self) -> None:
        self.seen: list[Candidate] = []

    def new(self, past: Sequence[Candidate]) -> tuple[bool, Sequence[Candidate]]:
        """Whether what was computed still holds, and the candidates that it lacks, from now on seen."""
        holds = len(self.seen) <= len(past) and all(map(operator.is_, self.seen, past))
        if not holds:
            self.seen = []
        added = past[len(self.seen) :]
        self.seen.extend(added)
        return holds, added


class Known:
    """The genomes that were measured, and those that the generation in the making has."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._measured: set[str] = set()
        self._proposed: set[str] = set()

    def begin(self, past: Sequence[Candidate]) -> None:
        """A generation begins."""
        holds, added = self._memory.new(past)
        if not holds:
            self._measured = set()
        self._measured.update(candidate.genome.id for candidate in added)
        self._proposed = set()

    def __contains__(self, genome: Genome) -> bool:
        return genome.id in self._measured or genome.id in self._proposed

    def take(self, make: Callable[[np.random.Generator], Proposal], rng: np.random.Generator) -> Proposal:
        """What `make` proposes; it is asked again, a few times, while its genome is known."""
        proposal = make(rng)
        for _ in range(TRIES - 1):
            if proposal.genome not in self:
                break
            proposal = make(rng)
        self.add(proposal)
        return proposal

    def add(self, proposal: Proposal) -> None:
        """The generation in the making has this one."""
        self._proposed.add(proposal.genome.id)


def stream_of(problem: Problem, generation: int, slot: int) -> np.random.Generator:
    """The stream of a proposal."""
    return stream(problem.seed, generation, slot, "propose")


def founders(problem: Problem) -> list[Proposal]:
    """The first generation: the space's seeds, the same for every strategy with this seed."""
    return [Proposal(genome, name) for genome, name in problem.space.seeds(stream(problem.seed, 0, 0, "seeds"))]


def drawn(problem: Problem, rng: np.random.Generator) -> Proposal:
    """A genome at random."""
    return Proposal(problem.space.draw(rng), "draw")


def mutated(problem: Problem, parent: Candidate, known: Known, rng: np.random.Generator) -> Proposal:
    """A mutant of a candidate."""
    genome, name = _mutant(problem, parent.genome, known, rng)
    return Proposal(genome, name, ((parent.number, "parent"),))


def crossed(
    problem: Problem, first: Candidate, second: Candidate, known: Known, share: float, rng: np.random.Generator
) -> Proposal:
    """A child of two. It is mutated with probability `share`, and if it is known."""
    genome, name = problem.space.cross(first.genome, second.genome, rng), "cross"
    if rng.random() < share or genome in known:
        genome, change = _mutant(problem, genome, known, rng)
        name = f"cross+{change}"
    return Proposal(genome, name, ((first.number, "parent"), (second.number, "mate")))


def _mutant(problem: Problem, genome: Genome, known: Known, rng: np.random.Generator) -> tuple[Genome, str]:
    """A changed genome. Around a good one all neighbours are known at last: then one that is farther away."""
    for _ in range(NEAR):
        made, name = problem.space.mutate(genome, rng)
        if made not in known:
            return made, name
    for _ in range(FAR):
        if made in known:
            made, change = problem.space.mutate(made, rng)
            name = f"{name}+{change}"
    return made, name


def pick(weights: np.ndarray, rng: np.random.Generator) -> int:
    """A place with probability proportional to its weight `[n]`, none of them negative; each alike if all are 0."""
    sums = np.cumsum(weights)
    if not sums[-1] > 0:
        return int(rng.integers(len(weights)))
    return min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), len(weights) - 1)


def attraction(first: np.ndarray, others: np.ndarray, sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """How much each of the others `[n, items]` solves that the first `[items]` does not: Σⱼ wⱼ max(0, sᵢⱼ/zⱼ − sⱼ/zⱼ)
    over items that someone solves, zⱼ `[items]` being by how many they are shared (M2N2, arXiv 2508.16204) and wⱼ
    `[items]` what they weigh.
    """
    shares = np.divide(weights, sums, out=np.zeros(len(sums)), where=sums > 0)
    found: np.ndarray = (others & ~first) @ shares  # solved is 0 or 1, so max(0, a - b) is a and not b
    return found
