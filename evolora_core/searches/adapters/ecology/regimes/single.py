"""The regime `single`: one organelle, same rule, no bankruptcy; in a contest, several that practise everything."""

from collections.abc import Sequence
from dataclasses import dataclass

from evolora_core.searches.adapters.ecology.regime import Seat, whole_steps
from evolora_core.searches.adapters.settings.ecology import EcologySettings, EconomyConfig, PlasticityConfig


@dataclass(frozen=True)
class Single:
    """One organelle, of the largest rank and with the configured traits, practises everything and pays nothing that it
    does not have. It goes on until its budget is spent.
    """

    word: str = "single"
    needs_budget: bool = True

    def seats(self, config: EcologySettings, families: Sequence[str]) -> list[Seat]:
        """One, or those that contend."""
        return [Seat(max(config.ranks), "", 0.0)] * config.contest.contenders

    def slots(self, config: EcologySettings) -> int:
        """One, or one for each contender."""
        return config.contest.contenders

    def limit(self, config: EcologySettings) -> int:
        """One, or those that contend."""
        return config.contest.contenders

    def ticket(self, balance: int, economy: EconomyConfig) -> int | None:
        """None is asked for."""
        return 0

    def solvent(self, balance: int) -> bool:
        """Whatever it owes."""
        return True

    def births(self, config: EcologySettings) -> int:
        """None."""
        return 0

    def memories(self, plasticity: PlasticityConfig, families: int) -> int:
        """`plasticity.buffer` for each family, since it practises all."""
        return plasticity.buffer * families

    def attempts(self, config: EcologySettings) -> int:
        """None: there are no two."""
        return 0

    def rehearsal(self, config: EcologySettings) -> float:
        """None: there is no sum."""
        return 0.0

    def rows(self, plasticity: PlasticityConfig) -> int:
        """`plasticity.single_batch_rows`."""
        return plasticity.single_batch_rows

    def steps(self, plasticity: PlasticityConfig, generations: float) -> int:
        """Learning steps, scaled by the ratio of batch rows: all regimes learn equally many rows."""
        return whole_steps(plasticity.steps * generations * (plasticity.batch_rows / plasticity.single_batch_rows))

    def candidate_ranks(self, config: EcologySettings, families: int) -> list[int]:
        """Its own."""
        return [max(config.ranks)]


REGIME = Single()
