"""What a space is: how recipes of one kind are drawn, changed and crossed, and written as vectors."""

from typing import Protocol

import numpy as np

from evolora_core.searches.merging.recipe import Genome


class Space(Protocol):
    """Recipes of one kind over given parents.

    parents    names of the models that are merged
    layers     layers of each of them
    dimension  length of the vector of a genome
    """

    parents: tuple[str, ...]
    layers: int
    dimension: int

    def seeds(self, rng: np.random.Generator) -> list[tuple[Genome, str]]:
        """The first generation: genomes, each with how it was made."""

    def draw(self, rng: np.random.Generator) -> Genome:
        """A genome at random."""

    def mutate(self, genome: Genome, rng: np.random.Generator) -> tuple[Genome, str]:
        """A changed genome, never an equal one, and the name of the change."""

    def cross(self, first: Genome, second: Genome, rng: np.random.Generator) -> Genome:
        """A child of two."""

    def decode(self, vector: np.ndarray) -> Genome:
        """The genome of a vector `[dimension]`; each number is best near 0 to 1, and any number is taken."""

    def start(self) -> np.ndarray:
        """The vector `[dimension]` from which a search in vectors begins."""
