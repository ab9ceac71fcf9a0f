"""Settings that a run draws instead of being told."""

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from evolora_core.engine.rng import stream
from evolora_core.engine.strict import Strict

Rate = Annotated[float, Field(gt=0, le=10)]


class PriorConfig(Strict):
    """From what settings are drawn, evenly on a logarithmic scale."""

    learning_rate: list[Rate] = Field(
        [],
        max_length=2,
        description="lowest and highest learning rate, in the place of the one that is set; []: nothing is drawn. "
        "Every organelle of the beginning draws its own, and the first one's is also what fine-tuning draws",
    )

    @model_validator(mode="after")
    def _two(self) -> "PriorConfig":
        if self.learning_rate and not (len(self.learning_rate) == 2 and self.learning_rate[0] < self.learning_rate[1]):
            raise ValueError("learning_rate: give the lowest and the highest, such as [0.0001, 0.1]")
        return self

    def rate(self, seed: int, number: int) -> float | None:
        """The learning rate that contender `number` of a run draws: the same in every arm. None: nothing is drawn."""
        if not self.learning_rate:
            return None
        lowest, highest = np.log(self.learning_rate)
        return float(np.exp(stream(seed, 0, number, "prior").uniform(lowest, highest)))
