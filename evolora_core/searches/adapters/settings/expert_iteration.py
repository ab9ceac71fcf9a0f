"""Settings of expert iteration."""

from pydantic import Field

from evolora_core.engine.strict import Changes, Strict


class ExpertIterationSettings(Strict):
    """Compute-matched expert iteration with one adapter: what a run reads. In each round the adapter samples answers,
    the verifier keeps the right ones, and TRL's SFTTrainer fine-tunes the adapter on them.
    """

    rank: int = Field(8, ge=1, le=1024, description="adapter rank")
    scale: float = Field(2.0, ge=1e-6, le=1000, description="ΔW = scale · B A (PEFT's alpha = scale × rank)")
    rounds: int = Field(4, ge=1, le=1000, description="rounds, with equal shares of the budget")
    samples: int = Field(4, ge=1, le=4096, description="answers to each item; the first right one is learned")
    temperature: float = Field(1.0, gt=0, le=100, description="sampling temperature")
    sampling: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="share of a round's FLOPs that its answers may take; the rest is for learning. No item is asked "
        "twice in a round",
    )
    labels: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="gold answers of each family, those that arms with so many `labels` see, which every round learns "
        "beside what it found",
    )
    learning_rate: float = Field(
        2e-3, gt=0, le=10, description="AdamW learning rate; it falls to zero within each round"
    )
    batch_rows: int = Field(24, ge=1, le=65_536, description="rows of one optimizer step")
    epochs: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="passes over the rows of a round, at most; what is left is for the rounds that follow, and unspent "
        "after the last",
    )


class ExpertIterationConfig(ExpertIterationSettings):
    """Compute-matched expert iteration with one adapter, from rewards."""

    trials: list[Changes] = Field(
        [{"learning_rate": 1e-3}, {"learning_rate": 2e-3}, {"learning_rate": 4e-3}],
        max_length=100,
        description="settings that tuning tries, nested as here; the best trial's are used. []: nothing is tuned",
    )
