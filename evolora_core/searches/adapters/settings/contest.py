"""Settings of the contest of an ecology, and the prior from which founders draw their traits."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from evolora_core.engine.strict import Strict

Rate = Annotated[float, Field(gt=0, le=10)]


class ContestConfig(Strict):
    """Selection that reaches the weights: in each niche several contenders learn, and the better go on."""

    contenders: int = Field(
        1,
        ge=1,
        le=256,
        description="organelles of a niche that learn, each a part of its learning steps; 1: no contest. With "
        "`single`, organelles that practise everything",
    )
    every: int = Field(2, ge=1, le=1_000_000, description="generations between two contests")
    items: int = Field(
        256,
        ge=1,
        le=1_000_000,
        description="training items that all contenders of a niche answer in a contest; those that they practised in "
        "that generation count, the others are asked for and charged",
    )
    loser: Literal["copies", "restarts", "retires"] = Field(
        "copies",
        description="what becomes of a contender that the best of its niche beats. `copies`: its slot takes the "
        "winner's weights, memories and optimizer state, and its traits, varied (population-based training); "
        "`restarts`: it begins anew with the winner's traits, varied; `retires`: the worse half go, "
        "and leave their learning steps to the others (successive halving)",
    )
    judge: Literal["evidence", "chance"] = Field(
        "evidence",
        description="`evidence`: answers to the common items decide; `chance`: the order of contenders is drawn, and "
        "as many lose as by evidence would",
    )
    alpha: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="level of the exact paired test by which the best beats a contender; `retires` needs no test",
    )
    spread: float = Field(
        0.5, ge=0, le=10, description="standard deviation of the log traits of a successor around the winner's"
    )


class PriorConfig(Strict):
    """What founders draw, instead of being told: every contender its own, evenly on a logarithmic scale."""

    learning_rate: list[Rate] = Field(
        [],
        max_length=2,
        description="lowest and highest learning rate of the first generation; []: the rule's own rate, which each "
        "founder varies by `variation.trait_sigma`",
    )

    @model_validator(mode="after")
    def _two(self) -> "PriorConfig":
        if self.learning_rate and not (len(self.learning_rate) == 2 and self.learning_rate[0] < self.learning_rate[1]):
            raise ValueError("learning_rate: give the lowest and the highest, such as [0.0001, 0.1]")
        return self
