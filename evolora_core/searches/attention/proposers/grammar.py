"""The offline proposer: draws, changes and crosses genomes of a grammar. Equal requests give equal proposals."""

from collections.abc import Sequence

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.grammar.genes import Genome, Grammar
from evolora_core.searches.attention.grammar.vary import cross, draw, mutate
from evolora_core.searches.attention.proposers.base import Proposal, Request

LONGEST_WALK = 100  # changes, one after another, until a genome is found that the request does not have


class GrammarProposer:
    """The proposer.

    crossover  probability that a request with two parents crosses them; else the first is changed
    """

    def __init__(self, grammar: Grammar, crossover: float = 0.5) -> None:
        self.grammar = grammar
        self.crossover = crossover

    def propose(self, request: Request) -> Proposal:
        """A genome that none of the request's programs has; drawn if none of its parents has a genome."""
        rng = stream(*request.rng_key, "propose")
        tried = [own.genome for own in (*request.parents, *request.failures) if own.genome is not None]
        parents = [(own.program_id, own.genome) for own in request.parents if own.genome is not None]
        if not parents:
            return self._walked(draw(self.grammar, rng), ["draw"], (), tried, rng)
        (first, one), *rest = parents
        if rest and rng.random() < self.crossover:
            second, other = rest[0]
            return self._walked(cross(self.grammar, one, other, rng), ["cross"], (first, second), tried, rng)
        genome, change = mutate(self.grammar, one, rng)
        return self._walked(genome, [change], (first,), tried, rng)

    def _walked(
        self,
        genome: Genome,
        steps: list[str],
        parents: tuple[str, ...],
        tried: Sequence[Genome],
        rng: np.random.Generator,
    ) -> Proposal:
        """The first genome of a random walk from here that was not tried; the operator names all that was done."""
        while genome in tried and len(steps) < LONGEST_WALK:
            genome, change = mutate(self.grammar, genome, rng)
            steps = [*steps, change]
        return Proposal(self.grammar.program(genome), self.grammar.check(genome), ", ".join(steps), parents)
