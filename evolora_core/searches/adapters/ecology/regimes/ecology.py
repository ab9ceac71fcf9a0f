"""The regime `ecology`: a population that pays for its answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from evolora_core.lora.population.merge import summed_rank
from evolora_core.searches.adapters.ecology.ledger import micro
from evolora_core.searches.adapters.ecology.regime import Seat, whole_steps
from evolora_core.searches.adapters.settings.ecology import EcologySettings, EconomyConfig, PlasticityConfig


@dataclass(frozen=True)
class Ecology:
    """Many organelles that pay for what they do and multiply if they can."""

    word: str = "ecology"
    needs_budget: bool = False

    def seats(self, config: EcologySettings, families: Sequence[str]) -> list[Seat]:
        """A turn for each niche. Ranks are dealt within a niche: dealt over all founders, with as many ranks as
        families, a niche would have one rank.
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
        """`population`."""
        return config.population

    def ticket(self, balance: int, economy: EconomyConfig) -> int | None:
        """The configured one, from whoever has it."""
        ticket = micro(economy.ticket)
        return ticket if balance >= ticket else None

    def solvent(self, balance: int) -> bool:
        """With energy left."""
        return balance > 0

    def births(self, config: EcologySettings) -> int:
        """`variation.births`."""
        return config.variation.births

    def memories(self, plasticity: PlasticityConfig, families: int) -> int:
        """`plasticity.buffer`: it practises one family."""
        return plasticity.buffer

    def attempts(self, config: EcologySettings) -> int:
        """`assimilation.attempts`."""
        return config.assimilation.attempts

    def rehearsal(self, config: EcologySettings) -> float:
        """`assimilation.rehearsal`."""
        return config.assimilation.rehearsal

    def rows(self, plasticity: PlasticityConfig) -> int:
        """`plasticity.batch_rows`."""
        return plasticity.batch_rows

    def steps(self, plasticity: PlasticityConfig, generations: float) -> int:
        """`plasticity.steps` for each generation, as a whole number."""
        return whole_steps(plasticity.steps * generations)

    def candidate_ranks(self, config: EcologySettings, families: int) -> list[int]:
        """One adapter for the item's family and one for all families; with one family, both are the same."""
        top = max(config.ranks)
        general = summed_rank(top) if config.assimilation.sum_weight else top
        return [top, general] if families > 1 else [top]


REGIME = Ecology()
