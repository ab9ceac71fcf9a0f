"""Task arithmetic with a weight for each parent and group of layers: θ₀ + Σ wᵢτᵢ, wᵢ by layer group.

The space of AdaMerging's layer-wise coefficients (Yang et al. 2024, arXiv 2310.02575), which mergekit-evolve searches
with CMA-ES. It is the one space whose score is smooth in its vector.
"""

import numpy as np

from evolora_core.searches.merging.recipe import Genome, Merge
from evolora_core.searches.merging.spaces.values import as_groups, grid, tidy

LOW, HIGH = -0.5, 3.0  # a little of a parent may be taken away, or more than all of it added
LEAST = 0.5  # of the sum of the parents' weights, where a genome is drawn
MOST = 1.5  # of the same, for each parent
FEWEST = 8  # genomes of the first generation
STEP = 0.1  # standard deviation of a change


class Smooth:
    """The space: vector `[parents * groups]` = weights, those of the first parent first."""

    def __init__(self, parents: tuple[str, ...], groups: int, layers: int) -> None:
        self.parents, self.groups, self.layers = parents, groups, layers
        self.dimension = len(parents) * groups

    def genome(self, weights: np.ndarray) -> Genome:
        """The recipe of weights `[parents, groups]`, clipped."""
        kept = tidy(np.clip(weights, LOW, HIGH))
        return Genome(
            recipe=Merge(
                op="task_arithmetic", inputs=list(self.parents), params={"weight": [as_groups(row) for row in kept]}
            )
        )

    def weights(self, genome: Genome) -> np.ndarray:
        """The weights `[parents, groups]` of a recipe of this space. ValueError for another one."""
        recipe = genome.recipe
        if not isinstance(recipe, Merge) or recipe.inputs != list(self.parents) or recipe.op != "task_arithmetic":
            raise ValueError(f"no recipe of the space `smooth`: {genome.text}")
        return grid(recipe.params["weight"], len(self.parents), self.groups)

    def seeds(self, rng: np.random.Generator) -> list[tuple[Genome, str]]:
        """The uniform mean, each parent alone, and drawn ones up to eight."""
        count = len(self.parents)
        plain = [(self.decode(self.start()), "mean")]
        for number in range(count):
            plain.append((self.genome(np.repeat(np.eye(count)[number][:, None], self.groups, axis=1)), "parent"))
        return [*plain, *((self.draw(rng), "draw") for _ in range(FEWEST - len(plain)))]

    def draw(self, rng: np.random.Generator) -> Genome:
        """In each group, shares of the parents that are uniform on the simplex, times a sum of the group's own.

        Uniform in its logarithm: half of the sums are below 1.2 for two parents, 1.7 for four. Weights that are
        drawn one by one would nearly all add up to more than that.
        """
        shares = rng.dirichlet(np.ones(len(self.parents)), size=self.groups).T
        sums = np.exp(rng.uniform(np.log(LEAST), np.log(MOST * len(self.parents)), size=self.groups))
        return self.genome(shares * sums)

    def mutate(self, genome: Genome, rng: np.random.Generator) -> tuple[Genome, str]:
        """All weights a little, one weight much, all by one factor, or one parent left out in a group."""
        weights = self.weights(genome)
        while True:
            name = ("jitter", "one", "scale", "drop")[int(rng.integers(4))]
            changed = weights.copy()
            place = int(rng.integers(len(self.parents))), int(rng.integers(self.groups))
            if name == "jitter":
                changed += STEP * rng.standard_normal(weights.shape)
            elif name == "one":
                changed[place] += 3 * STEP * rng.standard_normal()
            elif name == "scale":
                changed *= np.exp(2 * STEP * rng.standard_normal())
            else:
                changed[place] = 0.0
            made = self.genome(changed)
            if made.text != genome.text:  # a clipped weight may stay where it is
                return made, name

    def cross(self, first: Genome, second: Genome, rng: np.random.Generator) -> Genome:
        """Split at a group of layers, or a mix of both by one share."""
        one, other = self.weights(first), self.weights(second)
        if self.groups > 1 and rng.random() < 0.5:
            at = int(rng.integers(1, self.groups))
            return self.genome(np.concatenate([one[:, :at], other[:, at:]], axis=1))
        share = rng.random()
        return self.genome(share * one + (1 - share) * other)

    def mean(self, genomes: list[Genome]) -> Genome:
        """The mean of the weights, which is the mean of the models."""
        return self.genome(np.mean([self.weights(genome) for genome in genomes], axis=0))

    def decode(self, vector: np.ndarray) -> Genome:
        """The weights are the vector `[parents * groups]`."""
        return self.genome(np.nan_to_num(np.asarray(vector, dtype=float)).reshape(len(self.parents), self.groups))

    def start(self) -> np.ndarray:
        """The uniform mean."""
        return np.full(self.dimension, 1 / len(self.parents))


def make(parents: tuple[str, ...], layers: int, groups: int, seed: int) -> Smooth:
    """The space over these parents."""
    return Smooth(parents, groups, layers)
