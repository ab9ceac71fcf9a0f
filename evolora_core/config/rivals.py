"""Settings of the ecology's rivals, which spend what it spent."""

from typing import Annotated, Literal

from pydantic import Field

from evolora_core.config.arms import Changes
from evolora_core.config.strict import Strict

Decay = Annotated[float, Field(ge=0, lt=1)]


class SftConfig(Strict):
    """Compute-matched supervised fine-tuning of one adapter by TRL."""

    rank: int = Field(8, ge=1, description="adapter rank")
    scale: float = Field(2.0, gt=0, description="ΔW = scale · B A (PEFT's alpha = scale × rank)")
    learning_rate: float = Field(6e-3, gt=0, description="AdamW learning rate after the warm-up; decays to zero")
    trials: list[Changes] = Field(
        [{"learning_rate": 3e-3}, {"learning_rate": 6e-3}, {"learning_rate": 1.2e-2}],
        description="settings that tuning tries, nested as here; the best of them is used. []: no tuning",
    )
    batch_rows: int = Field(24, ge=1, description="rows of one optimizer step")
    warmup_fraction: float = Field(0.05, ge=0, lt=1, description="share of the steps over which the rate rises")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay")
    betas: tuple[Decay, Decay] = Field((0.9, 0.99), description="AdamW moment decays")
    max_grad_norm: float = Field(1.0, gt=0, description="gradient norm bound")
    kl: float = Field(
        0.0,
        ge=0,
        description="weight of KL(host ‖ adapter) at the answer tokens, in nats a token, beside the loss; the "
        "host's pass for it is part of the budget",
    )
    epochs: float | None = Field(
        None, gt=0, description="passes over the training rows, at most; what is then left of the budget stays unspent"
    )
    specialists: bool = Field(False, description="an adapter for each family, each with an equal share of the budget")
    sum_weight: float = Field(
        0.85,
        ge=0,
        description="with specialists: the updates of those that are better than the host are added up, each times "
        "this, as the candidate that answers everything; 0: none is made",
    )
    labels: int | None = Field(None, ge=1, description="gold answers of each family that training sees; null: all")
    label_error: float = Field(0.0, ge=0, lt=1, description="share of the gold answers that are those of other items")
    strengths: list[Annotated[float, Field(gt=0)]] = Field(
        [1.0], min_length=1, description="factors of ΔW after training, of which selection chooses"
    )
    checkpoints: int = Field(4, ge=1, description="evenly spaced checkpoints that selection may choose from")


class EsConfig(Strict):
    """Compute-matched evolution strategies, or random search, on one adapter."""

    rank: int = Field(8, ge=1, description="adapter rank")
    scale: float = Field(2.0, gt=0, description="ΔW = scale · B A")
    update: Literal["gradient", "best"] = Field(
        "gradient",
        description="`gradient`: a step of Adam along the slope of mirrored pairs; `best`: go to the best of as many "
        "independent perturbations, or stay where none is better (random search)",
    )
    pairs: int = Field(16, ge=2, description="mirrored pairs of perturbations in one step")
    items: int = Field(16, ge=1, description="items that every perturbation answers in one step")
    sigma: float = Field(0.02, gt=0, description="standard deviation of a perturbation of the factors")
    partial_credit: bool = Field(False, description="reward the verifier's score in [0, 1] instead of right answers")
    learning_rate: float = Field(1e-2, gt=0, description="Adam learning rate; falls to zero as the budget is spent")
    trials: list[Changes] = Field(
        [{"learning_rate": 3e-3}, {"learning_rate": 1e-2}, {"sigma": 0.05}],
        description="settings that tuning tries, nested as here; the best of them is used. []: no tuning",
    )


class GrpoConfig(Strict):
    """Compute-matched group relative policy optimisation of one adapter by TRL, from rewards alone."""

    rank: int = Field(8, ge=1, description="adapter rank")
    scale: float = Field(2.0, gt=0, description="ΔW = scale · B A (PEFT's alpha = scale × rank)")
    groups: int = Field(8, ge=1, description="items of one step; their answers are sampled and learned together")
    samples: int = Field(8, ge=2, description="answers to each item; an advantage is relative to their mean reward")
    temperature: float = Field(1.0, gt=0, description="sampling temperature, in scoring too")
    beta: float = Field(0.0, ge=0, description="weight of the KL to the host, whose reading is part of the budget")
    partial_credit: bool = Field(False, description="reward the verifier's score in [0, 1] instead of right answers")
    learning_rate: float = Field(2e-3, gt=0, description="AdamW learning rate; falls to zero as the budget is spent")
    betas: tuple[Decay, Decay] = Field((0.9, 0.99), description="AdamW moment decays")
    max_grad_norm: float = Field(1.0, gt=0, description="gradient norm bound")
    trials: list[Changes] = Field(
        [{"learning_rate": 1e-3}, {"learning_rate": 2e-3}, {"learning_rate": 4e-3}],
        description="settings that tuning tries, nested as here; the best of them is used. []: no tuning",
    )
