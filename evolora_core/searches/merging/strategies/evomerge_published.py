"""The first system's protocol, as it was published and with all its weaknesses.

Eight recipes 2^3. In each generation all are ranked; the best two give three mutants each, the worst six give, three by
three, the mean of each triple; these eight are the next generation. There is no elitism: the parents are gone, and with
them the best of the run if no child equals it. It stops after 50 generations, or at the fifth time in a row that the
best fitness of the last three generations lies within 1 %.

Where the document and the code are silent or wrong, and what we chose:

- Mutation drew one of the recipe's three fields anew (half of the draws give the old operator), recorded it, and added
  Gaussian noise of .15 standard deviations to the weights: recipe and model disagreed. We apply the field that is drawn
  (`Operators.redraw`) and add no noise. A mutant that was measured already is drawn again, a few times; then it is
  proposed all the same, and costs nothing. In spaces without the three fields a mutation of the space takes its place.
- The mean of a triple was a mean of weights. It is a recipe here, `linear` of the three. A three-stage recipe is too
  deep to be an input: its route is left out, and the merged model under it taken (`Operators.mean`). In a space without
  means two crossings take its place.
- A seed that failed was skipped, so that populations shrink. Those that failed are not ranked here. With fewer than
  eight left the best two are among the worst six too, as published; a triple of one has no mean and is left out.
- The plateau was .01 of an accuracy, on items that could not tell .05. Scores are log-likelihoods here, so it is 1 % of
  the best of the three. As published it is the best minus the worst of them, so a decline is no plateau.
- `best` was the best of the current population alone, and the run could lose it. The strategy still breeds from the
  current population alone; what a run reports is the best that it ever measured, as for all strategies.
- Its evaluation (five sampled prompts a domain, substrings, tokens counted) is not part of the protocol here.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Protocol, runtime_checkable

import numpy as np

from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.strategies.base import Candidate, Problem, Proposal, ranked
from evolora_core.searches.merging.strategies.common import Known, founders, stream_of

BEST, MUTANTS, WORST, TRIPLE = 2, 3, 6, 3
GENERATIONS = 50
LOOK_BACK, WITHIN, COUNTS = 3, 0.01, 5  # the plateau


@runtime_checkable
class Redraws(Protocol):
    """A space whose recipes have fields that can be drawn anew."""

    def redraw(self, genome: Genome, rng: np.random.Generator) -> tuple[Genome, str]: ...


@runtime_checkable
class Means(Protocol):
    """A space that has the mean of models."""

    def mean(self, genomes: list[Genome]) -> Genome: ...


class Published:
    """The strategy."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known = Known()

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]:
        """Six mutants and two means, or nothing when it is over."""
        if generation == 0:
            return founders(self.problem)
        if generation >= GENERATIONS or plateaus(best_of_generations(past, generation)) >= COUNTS:
            return []
        population = ranked([candidate for candidate in past if candidate.generation == generation - 1])
        self._known.begin(past)
        proposals: list[Proposal] = []
        for parent in population[:BEST]:
            for _ in range(MUTANTS):
                rng = stream_of(self.problem, generation, len(proposals))
                proposals.append(self._known.take(partial(self._mutant, parent), rng))
        worst = population[-WORST:]
        for triple in (worst[:-TRIPLE], worst[-TRIPLE:]):
            if len(triple) > 1:
                rng = stream_of(self.problem, generation, len(proposals))
                proposals.append(self._mean(triple, rng))
        return proposals

    def _mutant(self, parent: Candidate, rng: np.random.Generator) -> Proposal:
        if not isinstance(self.problem.space, Redraws):
            genome, name = self.problem.space.mutate(parent.genome, rng)
        else:
            genome, name = self.problem.space.redraw(parent.genome, rng)
        return Proposal(genome, name, ((parent.number, "parent"),))

    def _mean(self, triple: list[Candidate], rng: np.random.Generator) -> Proposal:
        space, genomes = self.problem.space, [candidate.genome for candidate in triple]
        if isinstance(space, Means):
            genome = space.mean(genomes)
        else:
            genome = reduce(lambda one, other: space.cross(one, other, rng), genomes)
        return Proposal(genome, "mean", tuple((candidate.number, "parent") for candidate in triple))


def best_of_generations(past: Sequence[Candidate], generations: int) -> list[float]:
    """The best score of each generation that has one."""
    found: dict[int, float] = {}
    for candidate in past:
        if candidate.score is not None:
            found[candidate.generation] = max(candidate.score, found.get(candidate.generation, -np.inf))
    return [found[number] for number in range(generations) if number in found]


def plateaus(best: Sequence[float]) -> int:
    """How many times in a row, up to now, the last three lay within 1 %."""
    count = 0
    for end in range(LOOK_BACK, len(best) + 1):
        last = best[end - LOOK_BACK : end]
        count = count + 1 if max(last) - min(last) < WITHIN * abs(max(last)) else 0
    return count


def make(problem: Problem) -> Published:
    """The strategy on a problem."""
    return Published(problem)
