"""What differs between an ecology and `single`: one organelle, same rule, no bankruptcy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evolora_core.lora.population.merge import summed_rank
from evolora_core.searches.adapters.ecology.ledger import micro
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

    def attempts(self, config: EcologySettings) -> int:
        """Pairs that a round of merging tries."""

    def rows(self, plasticity: PlasticityConfig) -> int:
        """Answers in one learning step, over all learners."""

    def steps(self, plasticity: PlasticityConfig, generations: float) -> int:
        """Learning steps of a learner in this many generations. All regimes learn equally many rows."""

    def candidate_ranks(self, config: EcologySettings) -> list[int]:
        """Ranks of the adapters that answer a selection item when routes are chosen, at most."""


@dataclass(frozen=True)
class Ecology:
    """Many organelles that pay for what they do and multiply if they can."""

    word: str = "ecology"
    needs_budget: bool = False

    def seats(self, config: EcologySettings, families: Sequence[str]) -> list[Seat]:
        """A turn for each niche. Ranks are dealt over all founders: with as many ranks as families a niche would
        else have one rank.
        """
        dealt = sorted(config.ranks, reverse=True)
        spread = config.variation.trait_sigma
        return [
            Seat(dealt[i // len(families) % len(dealt)], families[i % len(families)], spread)
            for i in range(config.population)
        ]

    def slots(self, config: EcologySettings) -> int:
        """For the living, newborns and candidates."""
        return config.slots

    def limit(self, config: EcologySettings) -> int:
        """As configured."""
        return config.population

    def ticket(self, balance: int, economy: EconomyConfig) -> int | None:
        """The configured one, from whoever has it."""
        ticket = micro(economy.ticket)
        return ticket if balance >= ticket else None

    def solvent(self, balance: int) -> bool:
        """With energy left."""
        return balance > 0

    def births(self, config: EcologySettings) -> int:
        """As configured."""
        return config.variation.births

    def attempts(self, config: EcologySettings) -> int:
        """As configured."""
        return config.assimilation.attempts

    def rows(self, plasticity: PlasticityConfig) -> int:
        """As configured."""
        return plasticity.batch_rows

    def steps(self, plasticity: PlasticityConfig, generations: float) -> int:
        """As configured."""
        return _steps(plasticity.steps * generations)

    def candidate_ranks(self, config: EcologySettings) -> list[int]:
        """One adapter for an item's family, and a sum for all families."""
        top = max(config.ranks)
        return [top, summed_rank(top)]


@dataclass(frozen=True)
class Single:
    """One organelle, of the largest rank and with the configured traits, practises everything and pays nothing that it
    does not have. It goes on until its budget is spent.
    """

    word: str = "single"
    needs_budget: bool = True

    def seats(self, config: EcologySettings, families: Sequence[str]) -> list[Seat]:
        """One."""
        return [Seat(max(config.ranks), "", 0.0)]

    def slots(self, config: EcologySettings) -> int:
        """One."""
        return 1

    def limit(self, config: EcologySettings) -> int:
        """One."""
        return 1

    def ticket(self, balance: int, economy: EconomyConfig) -> int | None:
        """None is asked for."""
        return 0

    def solvent(self, balance: int) -> bool:
        """Whatever it owes."""
        return True

    def births(self, config: EcologySettings) -> int:
        """None."""
        return 0

    def attempts(self, config: EcologySettings) -> int:
        """None: there are no two."""
        return 0

    def rows(self, plasticity: PlasticityConfig) -> int:
        """As configured for it."""
        return plasticity.single_batch_rows

    def steps(self, plasticity: PlasticityConfig, generations: float) -> int:
        """As many more or fewer as its rows are fewer or more."""
        return _steps(plasticity.steps * generations * (plasticity.batch_rows / plasticity.single_batch_rows))

    def candidate_ranks(self, config: EcologySettings) -> list[int]:
        """Its own."""
        return [max(config.ranks)]


def _steps(steps: float) -> int:
    """A whole number, one at least unless there is nothing to do."""
    return max(1, round(steps)) if steps else 0


REGIMES: dict[str, Regime] = {regime.word: regime for regime in (Ecology(), Single())}
