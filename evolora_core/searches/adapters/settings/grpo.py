"""Settings of group relative policy optimisation."""

from pydantic import Field

from evolora_core.engine.strict import Changes, Decay, Strict


class GrpoSettings(Strict):
    """Compute-matched group relative policy optimisation of one adapter by TRL: what a run reads."""

    rank: int = Field(8, ge=1, le=1024, description="adapter rank")
    scale: float = Field(2.0, ge=1e-6, le=1000, description="ΔW = scale · B A (PEFT's alpha = scale × rank)")
    groups: int = Field(8, ge=1, le=4096, description="items of one step")
    samples: int = Field(
        8,
        ge=2,
        le=4096,
        description="answers to each item of a step; an answer's advantage is its reward less their mean, "
        "divided by their standard deviation",
    )
    temperature: float = Field(1.0, gt=0, le=100, description="sampling temperature")
    beta: float = Field(
        0.0, ge=0, le=1000, description="weight of the KL divergence from the host, whose forward pass is charged"
    )
    partial_credit: bool = Field(
        False,
        description="the reward is the verifier's score in [0, 1]; false: it is 1 for a right answer and 0 otherwise",
    )
    learning_rate: float = Field(
        2e-3, gt=0, le=10, description="AdamW learning rate; it falls to zero as the budget is spent"
    )
    betas: tuple[Decay, Decay] = Field((0.9, 0.99), description="AdamW moment decays")
    max_grad_norm: float = Field(1.0, gt=0, le=1e6, description="gradient norm bound")


class GrpoConfig(GrpoSettings):
    """Compute-matched group relative policy optimisation of one adapter by TRL, from rewards alone."""

    trials: list[Changes] = Field(
        [{"learning_rate": 1e-3}, {"learning_rate": 2e-3}, {"learning_rate": 4e-3}],
        max_length=100,
        description="settings that tuning tries, nested as here; the best trial's are used. []: nothing is tuned",
    )
