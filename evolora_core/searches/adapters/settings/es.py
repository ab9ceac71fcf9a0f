"""Settings of evolution strategies."""

from typing import Literal

from pydantic import Field

from evolora_core.engine.strict import Changes, Strict


class EsSettings(Strict):
    """Compute-matched evolution strategies, or random search, on one adapter: what a run reads."""

    rank: int = Field(8, ge=1, le=1024, description="adapter rank")
    scale: float = Field(2.0, ge=1e-6, le=1000, description="ΔW = scale · B A")
    update: Literal["gradient", "best"] = Field(
        "gradient",
        description="`gradient`: a step of Adam along the slope of mirrored pairs; `best`: random search, which "
        "moves to the best perturbation, or stays if none is better",
    )
    pairs: int = Field(16, ge=2, le=4096, description="mirrored pairs of perturbations in one step")
    items: int = Field(16, ge=1, le=65_536, description="items that every perturbation answers in one step")
    sigma: float = Field(0.02, gt=0, le=10, description="standard deviation of a perturbation of the factors")
    partial_credit: bool = Field(
        False,
        description="the reward is the verifier's score in [0, 1]; false: it is 1 for a right answer and 0 otherwise",
    )
    learning_rate: float = Field(
        1e-2, gt=0, le=10, description="Adam learning rate; it falls to zero as the budget is spent"
    )


class EsConfig(EsSettings):
    """Compute-matched evolution strategies, or random search, on one adapter."""

    trials: list[Changes] = Field(
        [{"learning_rate": 3e-3}, {"learning_rate": 1e-2}, {"sigma": 0.05}],
        max_length=100,
        description="settings that tuning tries, nested as here; the best trial's are used. []: nothing is tuned",
    )
