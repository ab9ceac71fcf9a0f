"""Data-flow routes: layer routes with a scale for each step, by which what enters the layer is multiplied.

The data-flow space of Akiba et al. (arXiv 2403.13187) in the order of the layers. A scale is a conditional variable: it
matters only where its step is taken. Search that respects this beat plain CMA-ES by far (arXiv 2605.12326), so here a
genome has scales for its steps alone: no mutation touches one that nothing depends on, and equal models have equal
genomes. With all scales 1 a genome is that of `routes.py`.

Vector `[layers * (alleles + 2)]`: first the numbers of the genes, as in `routes.py`, then two for each position, for
the first and the second pass: 0.5 is a scale of 1, each half more doubles it.
"""

from typing import TypeAlias

import numpy as np

from evolora_core.searches.merging.recipe import Genome, Route, Step
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.spaces.routes import FAR, FEWEST, MOST, Genes, Routes
from evolora_core.searches.merging.spaces.values import DIGITS

Scales: TypeAlias = tuple[tuple[float, ...], ...]  # at each position one for each pass
SPREAD = 0.2  # standard deviation of the logarithm of a new scale
STEP = 0.1  # and of a scale's change
LOW, HIGH = 0.25, 4.0


class Flow:
    """The space."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.parents, self.layers = routes.parents, routes.layers
        self.dimension = routes.dimension + MOST * routes.layers

    def genome(self, genes: Genes, scales: Scales) -> Genome:
        """The recipe of genes and the scales of their steps."""
        plain = self.routes.route(self.routes.genome(genes))
        flat = [scale for own in scales for scale in own]
        steps = [
            Step(input=step.input, layer=step.layer, scale=round(float(min(max(scale, LOW), HIGH)), DIGITS))
            for step, scale in zip(plain.route, flat, strict=True)
        ]
        return Genome(recipe=Route(inputs=plain.inputs, route=steps, rest=plain.rest))

    def read(self, genome: Genome) -> tuple[Genes, Scales]:
        """What `genome` made it of."""
        found: list[list[float]] = [[] for _ in range(self.layers)]
        for step in self.routes.route(genome).route:
            found[step.layer].append(step.scale)
        return self.routes.genes(genome), tuple(map(tuple, found))

    def seeds(self, rng: np.random.Generator) -> list[tuple[Genome, str]]:
        """The layers of each parent with scales of 1, and drawn routes up to eight."""
        plain = [own for own in self.routes.seeds(rng) if own[1] == "parent"]
        return [*plain, *((self.draw(rng), "draw") for _ in range(FEWEST - len(plain)))]

    def draw(self, rng: np.random.Generator) -> Genome:
        """A drawn route with drawn scales."""
        genes = self.routes.drawn(rng)
        return self.genome(genes, tuple(self._new(count, rng) for _, count in self.routes.genotype(genes)))

    def mutate(self, genome: Genome, rng: np.random.Generator) -> tuple[Genome, str]:
        """Another parent, another count or, half the time, another scale of a step that is taken."""
        genes, scales = self.read(genome)
        while True:
            if rng.random() < 0.5:
                taken = [(place, turn) for place, own in enumerate(scales) for turn in range(len(own))]
                place, turn = taken[int(rng.integers(len(taken)))]
                own = list(scales[place])
                own[turn] *= float(np.exp(STEP * rng.standard_normal()))
                changed, name = genes, "scale"
            else:
                changed, name, place = self.routes.changed(genes, rng)
                count = self.routes.genotype(changed)[place][1]
                kept = scales[place][:count]  # a pass that stays keeps its scale
                own = [*kept, *self._new(count - len(kept), rng)]
            made = self.genome(changed, (*scales[:place], tuple(own), *scales[place + 1 :]))
            if made.text != genome.text:  # a scale may be at its bound
                return made, name

    def cross(self, first: Genome, second: Genome, rng: np.random.Generator) -> Genome:
        """The first's layers and scales up to a split point, the second's from there."""
        (one, own), (other, its) = self.read(first), self.read(second)
        at = self.routes.split(one, other, rng)
        return self.genome((*one[:at], *other[at:]), (*own[:at], *its[at:]))

    def decode(self, vector: np.ndarray) -> Genome:
        """See the module for the vector."""
        numbers = np.clip(np.nan_to_num(np.asarray(vector, dtype=float)), -FAR, FAR)
        genes = self.routes.decided(numbers[: self.routes.dimension].reshape(self.layers, self.routes.alleles))
        scales = 2.0 ** np.clip(2 * numbers[self.routes.dimension :].reshape(self.layers, MOST) - 1, -2, 2)
        counts = [count for _, count in self.routes.genotype(genes)]
        return self.genome(genes, tuple(tuple(own[:count]) for own, count in zip(scales.tolist(), counts, strict=True)))

    def start(self) -> np.ndarray:
        """No gene before the others, all scales 1."""
        return np.full(self.dimension, 0.5)

    @staticmethod
    def _new(count: int, rng: np.random.Generator) -> tuple[float, ...]:
        return tuple(float(scale) for scale in np.exp(SPREAD * rng.standard_normal(count)))


def make(parents: tuple[str, ...], layers: int, groups: int, seed: int) -> Flow:
    """The space over these parents; embeddings, last norm and head are the base's."""
    return Flow(Routes(parents, layers, BASE))
