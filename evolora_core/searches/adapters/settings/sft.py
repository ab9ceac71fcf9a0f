"""Settings of supervised fine-tuning."""

from typing import Annotated

from pydantic import Field, model_validator

from evolora_core.engine.strict import LATER, Changes, Decay, Strict
from evolora_core.searches.adapters.settings.prior import PriorConfig


class SftSettings(Strict):
    """Compute-matched supervised fine-tuning of one adapter by TRL: what a run reads."""

    rank: int = Field(8, ge=1, le=1024, description="adapter rank")
    scale: float = Field(2.0, ge=1e-6, le=1000, description="ΔW = scale · B A (PEFT's alpha = scale × rank)")
    learning_rate: float = Field(
        6e-3, gt=0, le=10, description="AdamW learning rate after the warm-up; it falls to zero by the end"
    )
    batch_rows: int = Field(24, ge=1, le=65_536, description="rows of one optimizer step")
    warmup_fraction: float = Field(0.05, ge=0, lt=1, description="share of the steps over which the rate rises")
    weight_decay: float = Field(0.0, ge=0, le=10, description="AdamW weight decay")
    betas: tuple[Decay, Decay] = Field((0.9, 0.99), description="AdamW moment decays")
    max_grad_norm: float = Field(1.0, gt=0, le=1e6, description="gradient norm bound")
    kl: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="weight of KL(host ‖ adapter) at the answer tokens, in nats a token, added to the loss; the "
        "host's forward pass is charged",
    )
    epochs: float | None = Field(
        None,
        le=1e6,
        gt=0,
        description="passes over the training rows, at most; the rest of the budget stays unspent",
    )
    specialists: bool = Field(False, description="train an adapter for each family, with equal shares of the budget")
    sum_weight: float = Field(
        0.85,
        ge=0,
        le=10,
        description="with `specialists`: factor of each proven specialist's ΔW in the sum, as the candidate that "
        "answers everything; 0: no sum",
    )
    donor_items: int = Field(
        0,
        ge=0,
        le=1_000_000,
        json_schema_extra=LATER,
        description="with `specialists`, where families come one after another: labelled items of a new family that "
        "the host and every earlier specialist answer, and whoever answers most lends the new one its weights; "
        "charged. 0: each begins with the host's",
    )
    labels: int | None = Field(
        None, ge=1, le=10_000_000, description="gold answers of each family that training sees; null: all"
    )
    label_error: float = Field(
        0.0, ge=0, lt=1, description="share of the gold answers that are replaced by another item's"
    )
    shots: int = Field(
        0,
        ge=0,
        le=64,
        json_schema_extra=LATER,
        description="labelled items that stand before each item in training, and before those to be answered where the "
        "selection split says so: the nearest of its family, or of all for the router `single`; 0: none. With them, "
        "specialists are not added up",
    )
    strengths: list[Annotated[float, Field(gt=0, le=1000)]] = Field(
        [1.0], max_length=100, min_length=1, description="factors of ΔW after training; the selection split chooses one"
    )
    prior: PriorConfig = Field(
        PriorConfig(), json_schema_extra=LATER, description="what each run draws instead of being told"
    )
    contenders: int = Field(
        1,
        ge=1,
        le=256,
        json_schema_extra=LATER,
        description="learning rates that are drawn from `prior`; several are halved in rounds, which share half of the "
        "budget, by their answers to the selection split, and the last one trains anew with the other half",
    )
    checkpoints: int = Field(4, ge=1, le=1000, description="evenly spaced checkpoints; the selection split chooses one")

    @model_validator(mode="after")
    def _fits(self) -> "SftSettings":
        if self.contenders > 1 and not self.prior.learning_rate:
            raise ValueError("contenders: their learning rates are drawn from prior.learning_rate; set it")
        if self.contenders > 1 and self.specialists:
            raise ValueError("contenders: tries are of one adapter for everything; leave out specialists")
        if self.donor_items and not self.specialists:
            raise ValueError("donor_items: one adapter goes on with its own weights; set specialists, or leave it out")
        return self


class SftConfig(SftSettings):
    """Compute-matched supervised fine-tuning of one adapter by TRL."""

    trials: list[Changes] = Field(
        [{"learning_rate": 3e-3}, {"learning_rate": 6e-3}, {"learning_rate": 1.2e-2}],
        max_length=100,
        description="settings that tuning tries, nested as here; the best trial's are used. []: nothing is tuned",
    )
