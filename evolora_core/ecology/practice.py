"""How much room an ecology takes, and what its prices depend on."""

import numpy as np

from evolora_core.config import EcologyConfig
from evolora_core.pricing import Practice

ANSWERS = 256, 1024  # of the bare host, over all cells: as many as a generation may take, within these bounds


def slots_needed(config: EcologyConfig) -> int:
    """Slots for the living, one generation's newborns, and the candidate of a merge."""
    return config.population + config.variation.births + config.assimilation.attempts + 1


def practice_of(config: EcologyConfig) -> Practice:
    """What the prices of an arm with these settings depend on."""
    return Practice(
        answers=int(np.clip(config.episodes, *ANSWERS)),
        temperature=config.practice_temperature,
        population=config.population,
        slots=slots_needed(config),
        rank=max(config.ranks),
        scale=config.scale,
        batch_rows=config.plasticity.batch_rows,
        break_even_accuracy=config.economy.break_even_accuracy,
    )
