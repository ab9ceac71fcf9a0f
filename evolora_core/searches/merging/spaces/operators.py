"""Recipe trees of all operators and routes, at most three on top of each other.

The first generation are the eight three-stage recipes (`stages.py`); changes act on the recipe (`changes.py`). A child
of two is a route that takes the layers up to a split point from one and the others from the other (M2N2's split point,
arXiv 2508.16204, by layer), or one of them with a subtree of the other.

As a vector `[2 * parents * groups]` a genome is TIES with a weight and a density for each parent and group: first all
weights, in the bounds of `smooth`, then all densities. Its signs are elected, but sums are not divided by the weights,
which else would have one degree of freedom less than numbers.
"""

import numpy as np

from evolora_core.searches.merging.recipe import DEEPEST, Genome, Node, depth
from evolora_core.searches.merging.spaces import stages
from evolora_core.searches.merging.spaces.changes import CHANGES, STRETCH, Shape, draw_node
from evolora_core.searches.merging.spaces.smooth import HIGH, LOW
from evolora_core.searches.merging.spaces.trees import as_route, lowered, merged, places, replaced, route_over
from evolora_core.searches.merging.spaces.values import tidy

SPARSEST = 0.05  # density of a vector
TRIES = 30  # changes that are tried before a recipe is drawn instead
LARGEST = 40  # nodes of a recipe


class Operators:
    """The space. Every genome has the same seed of its masks, so that equal recipes are equal genomes."""

    def __init__(self, parents: tuple[str, ...], layers: int, groups: int, seed: int = 0) -> None:
        self.parents, self.layers, self.groups, self.seed = parents, layers, groups, seed
        self.dimension = 2 * len(parents) * groups
        self.shape = Shape(parents, layers)

    def seeds(self, rng: np.random.Generator) -> list[tuple[Genome, str]]:
        """The eight three-stage recipes."""
        return [(Genome(recipe=recipe, seed=self.seed), name) for recipe, name in stages.recipes(self.shape, rng)]

    def draw(self, rng: np.random.Generator) -> Genome:
        """A drawn tree."""
        while True:
            recipe = draw_node(self.shape, DEEPEST, rng)
            if _fits(recipe):
                return Genome(recipe=recipe, seed=self.seed)

    def mutate(self, genome: Genome, rng: np.random.Generator) -> tuple[Genome, str]:
        """One of the changes that apply."""
        names = list(CHANGES)
        for _ in range(TRIES):
            name = names[int(rng.integers(len(names)))]
            recipe = CHANGES[name](genome.recipe, self.shape, rng)
            if recipe is None or not _fits(recipe):
                continue
            made = Genome(recipe=recipe, seed=genome.seed)
            if made.text != genome.text:
                return made, name
        while True:
            made = self.draw(rng)
            if made.text != genome.text:
                return made, "draw"

    def cross(self, first: Genome, second: Genome, rng: np.random.Generator) -> Genome:
        """A split at a layer, or a subtree of the second in the first. The seed of masks is the first's."""
        split = rng.random() < 0.5
        recipe = self._split(first.recipe, second.recipe, rng) if split else None
        if recipe is None or not _fits(recipe):
            recipe = _exchanged(first.recipe, second.recipe, rng)
        return Genome(recipe=recipe if _fits(recipe) else first.recipe, seed=first.seed)

    def redraw(self, genome: Genome, rng: np.random.Generator) -> tuple[Genome, str]:
        """One of the three fields of a three-stage recipe drawn anew. The genome may be an equal one."""
        recipe, name = stages.redrawn(genome.recipe, self.shape, rng)
        return (Genome(recipe=recipe, seed=genome.seed) if _fits(recipe) else genome), name

    def mean(self, genomes: list[Genome]) -> Genome:
        """The mean of models as a recipe: `linear` of theirs. Of one that is too deep to be an input the outer operator
        is left out and its first input taken: of a three-stage recipe, what stage 2 made.
        """
        inputs = [lowered(genome.recipe, DEEPEST - 1) for genome in genomes]
        return Genome(recipe=merged("linear", inputs), seed=genomes[0].seed)

    def decode(self, vector: np.ndarray) -> Genome:
        """See the module for the vector."""
        numbers = np.nan_to_num(np.asarray(vector, dtype=float)).reshape(2, len(self.parents), self.groups)
        values = {
            "weight": tidy(np.clip(numbers[0], LOW, HIGH)),
            "density": tidy(np.clip(numbers[1], SPARSEST, 1.0)),
        }
        return Genome(recipe=merged("ties", self.parents, values, {"normalize": "no"}), seed=self.seed)

    def start(self) -> np.ndarray:
        """Half of each parent, half of its elements."""
        return np.full(self.dimension, 0.5)

    def _split(self, first: Node, second: Node, rng: np.random.Generator) -> Node | None:
        """Steps of the first up to the first one at or behind a layer, and of the second from there. None: too deep."""
        one, other = as_route(first, self.layers), as_route(second, self.layers)
        at = int(rng.integers(1, self.layers)) if self.layers > 1 else 0
        head, tail = list(one.route), list(other.route)
        head = head[: next((place for place, step in enumerate(head) if step.layer >= at), len(head))]
        tail = tail[next((place for place, step in enumerate(tail) if step.layer >= at), len(tail)) :]
        shift = len(one.inputs)
        steps = [*head, *(type(step)(input=step.input + shift, layer=step.layer, scale=step.scale) for step in tail)]
        if not 1 <= len(steps) <= STRETCH * self.layers:
            return None
        made = route_over([*one.inputs, *other.inputs], steps, one.rest)
        return made if depth(made) <= DEEPEST else None


def _exchanged(first: Node, second: Node, rng: np.random.Generator) -> Node:
    """The first with a subtree of the second, as deep as fits, in the place of one of its own nodes."""
    own = [path for path, _ in places(first) if path] or [()]
    path = own[int(rng.integers(len(own)))]
    # The whole second in the place of the whole first would be no child of two.
    given = [node for place, node in places(second) if (place or path) and depth(node) <= DEEPEST - len(path)]
    return replaced(first, path, given[int(rng.integers(len(given)))]) if given else first


def _fits(recipe: Node) -> bool:
    """Whether it has an operator, and not too many."""
    return 1 <= depth(recipe) <= DEEPEST and len(places(recipe)) <= LARGEST


def make(parents: tuple[str, ...], layers: int, groups: int, seed: int) -> Operators:
    """The space over these parents. Operators that need a base take the common one, which no recipe names."""
    return Operators(parents, layers, groups, seed)
