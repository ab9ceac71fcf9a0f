"""Layer routes: at each of the positions a parent's layer, left out, once or twice. The space of the landscape.

The layer at a position is the one that has this place in the parents: a route picks, skips and repeats, and never
reorders. With 4 parents and 4 layers there are (4 x 3)^4 = 20,736 genotypes `(parent, count 0 to 2)`. A position that
is left out has no parent, so 9 of its 12 genes differ, and distinct models are 9^4 - 1 = 6,560: the 4^4 genotypes that
leave out every layer are no models (a route has a step), and nothing here proposes them.

A genome is handled as its genes: at each position 0 for a layer that is left out, else 1 + 2 parent + (count - 1). The
recipe has all parents as inputs, in order, and the model `rest` of embeddings, last norm and head behind them unless it
is a parent.

Source: the depth-wise frankenmerges of mergekit, and the data-flow space of Akiba et al., arXiv 2403.13187, without its
scales (`flow.py` has them).
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from evolora_core.searches.merging.recipe import Genome, Route, Step
from evolora_core.searches.merging.roles import BASE

Genes: TypeAlias = tuple[int, ...]  # one for each position
Genotype: TypeAlias = tuple[tuple[int, int], ...]  # (parent, count) of each position
MOST = 2  # times that a layer is passed
FEWEST = 8  # genomes of the first generation
FAR = 1e9  # stands for infinity in vectors


class Routes:
    """The space. Vector `[layers * (1 + 2 parents)]`: at each position the gene whose number is largest.

    alleles   genes that a position may have
    models    distinct models
    """

    def __init__(self, parents: tuple[str, ...], layers: int, rest: str) -> None:
        self.parents, self.layers, self.rest = parents, layers, rest
        self.alleles = 1 + MOST * len(parents)
        self.models = self.alleles**layers - 1
        self.dimension = layers * self.alleles
        self._inputs = [*parents, *([] if rest in parents else [rest])]
        self._rest = self._inputs.index(rest)
        # A genome costs more to make than a look-up: replays of a landscape propose the same few thousand for ever.
        self._made: dict[Genes, Genome] = {}

    # Genes and genomes

    def gene(self, parent: int, count: int) -> int:
        """The gene of a parent's layer that is passed so many times; 0, whatever the parent, if it is left out."""
        return 1 + MOST * parent + count - 1 if count else 0

    def genotype(self, genes: Genes) -> Genotype:
        """The canonical (parent, count) of each position: parent 0 where the layer is left out."""
        return tuple(((gene - 1) // MOST, 1 + (gene - 1) % MOST) if gene else (0, 0) for gene in genes)

    def genome(self, genes: Genes) -> Genome:
        """The recipe of genes. ValueError if every layer is left out."""
        found = self._made.get(genes)
        if found is None:
            if not any(genes):
                raise ValueError("a route has at least one layer")
            steps = [
                Step(input=parent, layer=place)
                for place, (parent, count) in enumerate(self.genotype(genes))
                for _ in range(count)
            ]
            found = Genome(recipe=Route(inputs=list(self._inputs), route=steps, rest=self._rest))
            self._made[genes] = found
        return found

    def genes(self, genome: Genome) -> Genes:
        """The genes of a recipe of this space."""
        found = [0] * self.layers
        for step in self.route(genome).route:
            found[step.layer] = found[step.layer] + 1 if found[step.layer] else 1 + MOST * step.input
        return tuple(found)

    def route(self, genome: Genome) -> Route:
        """The recipe, which is a route over the parents. ValueError for another one."""
        recipe = genome.recipe
        if not isinstance(recipe, Route) or recipe.inputs != self._inputs:
            raise ValueError(f"no recipe of the space of layer routes: {genome.text}")
        return recipe

    # The landscape

    def distinct(self, number: int) -> Genome:
        """The distinct model of that number, from 0 to `models` - 1."""
        return self.genome(self.numbered(number))

    def numbered(self, number: int) -> Genes:
        """The genes of the distinct model of that number: its digits, the first position's last."""
        rest, found = number + 1, []
        for _ in range(self.layers):
            rest, gene = divmod(rest, self.alleles)
            found.append(gene)
        if rest or number < 0:
            raise IndexError(f"there are {self.models} distinct models; {number} is none of them")
        return tuple(found)

    def number(self, genes: Genes) -> int:
        """The number of the distinct model of genes; -1 if every layer is left out."""
        found = 0
        for gene in reversed(genes):
            found = found * self.alleles + gene
        return found - 1

    def key(self, genome: Genome) -> int:
        """The number of a genome's model: `distinct(key(genome))` equals it."""
        return self.number(self.genes(genome))

    def describe(self, number: int) -> str:
        """The genes of a distinct model in words, such as `code math*2 - code`."""
        words = [f"{self.parents[parent]}{f'*{count}' if count > 1 else ''}" if count else "-"
                 for parent, count in self.genotype(self.numbered(number))]  # fmt: skip
        return " ".join(words)

    # The space

    def seeds(self, rng: np.random.Generator) -> list[tuple[Genome, str]]:
        """The layers of each parent, and drawn routes up to eight."""
        plain = [(self.genome((self.gene(parent, 1),) * self.layers), "parent") for parent in range(len(self.parents))]
        return [*plain, *((self.draw(rng), "draw") for _ in range(FEWEST - len(plain)))]

    def draw(self, rng: np.random.Generator) -> Genome:
        """Every distinct model with the same probability."""
        return self.genome(self.drawn(rng))

    def drawn(self, rng: np.random.Generator) -> Genes:
        """The genes of a draw."""
        while True:
            genes = tuple(rng.integers(self.alleles, size=self.layers).tolist())
            if any(genes):
                return genes

    def mutate(self, genome: Genome, rng: np.random.Generator) -> tuple[Genome, str]:
        """Another parent or another count at one position."""
        genes, name, _ = self.changed(self.genes(genome), rng)
        return self.genome(genes), name

    def changed(self, genes: Genes, rng: np.random.Generator) -> tuple[Genes, str, int]:
        """Genes that differ at one position, whether it was the `parent` or the `count`, and the position.

        Where a layer is left out, it is the count, and the parent is drawn with it.
        """
        while True:
            place = int(rng.integers(self.layers))
            old = genes[place]
            if not old:
                new, name = 1 + int(rng.integers(self.alleles - 1)), "count"
            elif rng.random() < 0.5:
                parent, repeats = divmod(old - 1, MOST)
                other = (parent + 1 + int(rng.integers(len(self.parents) - 1))) % len(self.parents)
                new, name = 1 + MOST * other + repeats, "parent"
            else:
                parent, repeats = divmod(old - 1, MOST)
                count = (1 + repeats + 1 + int(rng.integers(MOST))) % (MOST + 1)
                new, name = self.gene(parent, count), "count"
            made = (*genes[:place], new, *genes[place + 1 :])
            if any(made):
                return made, name, place

    def cross(self, first: Genome, second: Genome, rng: np.random.Generator) -> Genome:
        """The first's layers up to a split point, the second's from there: M2N2's split (arXiv 2508.16204) by layer."""
        one, other = self.genes(first), self.genes(second)
        at = self.split(one, other, rng)
        return self.genome((*one[:at], *other[at:]))

    def split(self, one: Genes, other: Genes, rng: np.random.Generator) -> int:
        """A split point of two. Where it would leave out every layer, the end: the first is taken whole."""
        at = int(rng.integers(1, self.layers)) if self.layers > 1 else int(rng.integers(2))
        return at if any(one[:at]) or any(other[at:]) else self.layers

    def decode(self, vector: np.ndarray) -> Genome:
        """The largest number at each position decides; see the class for the vector."""
        return self.genome(self.decided(np.asarray(vector, dtype=float).reshape(self.layers, self.alleles)))

    def decided(self, numbers: np.ndarray) -> Genes:
        """The genes that numbers `[layers, alleles]` decide. If they left out every layer, the one is passed whose best
        other gene comes nearest to leaving it out.
        """
        if not np.isfinite(numbers).all():
            numbers = np.nan_to_num(numbers, posinf=FAR, neginf=-FAR)
        genes: list[int] = numbers.argmax(axis=1).tolist()
        if not any(genes):
            near = np.clip(numbers, -FAR, FAR)
            place = int((near[:, 1:].max(axis=1) - near[:, 0]).argmax())
            genes[place] = 1 + int(numbers[place, 1:].argmax())
        return tuple(genes)

    def start(self) -> np.ndarray:
        """No gene before the others."""
        return np.full(self.dimension, 0.5)


def make(parents: Sequence[str], layers: int, groups: int, seed: int) -> Routes:
    """The space over these parents; embeddings, last norm and head are the base's."""
    return Routes(tuple(parents), layers, BASE)
