"""What may differ between evolutions that learn by the same rule. Each regime is one file in `regimes/`, loaded by
name: an edit of one leaves the runs of the others as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evolora_core.searches.adapters.settings.ecology import EcologySettings, EconomyConfig, PlasticityConfig


@dataclass(frozen=True)
class Seat:
    """What a founder is given: rank and niche, and how far its traits may lie from the configured ones, as the
    standard deviation of their logarithms.
    """

    rank: int
    niche: str
    spread: float


class Regime(Protocol):
    """The rules of living together."""

    @property
    def word(self) -> str:
        """Its name, which also keys its random streams."""

    @property
    def needs_budget(self) -> bool:
        """Whether it has no length of its own."""

    def seats(self, config: EcologySettings, families: Sequence[str]) -> list[Seat]:
        """The founders."""

    def slots(self, config: EcologySettings) -> int:
        """Slots of the population."""

    def limit(self, config: EcologySettings) -> int:
        """Organelles that live after a generation at most."""

    def ticket(self, balance: int, economy: EconomyConfig) -> int | None:
        """Micro-energy that an organelle with this balance pays to take part; None: it cannot."""

    def solvent(self, balance: int) -> bool:
        """Whether an organelle with this balance may learn."""

    def births(self, config: EcologySettings) -> int:
        """Children by mutation in a generation, at most."""

    def memories(self, plasticity: PlasticityConfig, families: int) -> int:
        """Answers that an organelle remembers at most, where there are so many families."""

    def attempts(self, config: EcologySettings) -> int:
        """Pairs that a round of merging tries."""

    def rehearsal(self, config: EcologySettings) -> float:
        """FLOPs for training the sum of the learners after the last generation (`phases/rehearsing.py`), as a share of
        all FLOPs spent before it.
        """

    def rows(self, plasticity: PlasticityConfig) -> int:
        """Answers in one learning step, over all learners."""

    def steps(self, plasticity: PlasticityConfig, generations: float) -> int:
        """Learning steps of a learner in this many generations. All regimes learn equally many rows."""

    def candidate_ranks(self, config: EcologySettings, families: int) -> list[int]:
        """Ranks of the adapters that answer a selection item, at most, when routes are chosen for so many families."""


def whole_steps(steps: float) -> int:
    """A whole number, one at least unless there is nothing to do."""
    return max(1, round(steps)) if steps else 0
