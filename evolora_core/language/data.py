"""Settings of the splits."""

from typing import Literal

from pydantic import Field

from evolora_core.engine.strict import Strict


class DataConfig(Strict):
    """Families and sizes of the splits."""

    train_families: list[str] = Field(
        min_length=1, description="families that adapters train on: `train`, `selection` and `holdout_id` are of these"
    )
    ood_families: list[str] = Field(min_length=1, description="families of `holdout_ood`, which no adapter trains on")
    retention_families: list[str] = Field(
        min_length=1, description="families of `retention`, which the host answers well already"
    )
    depths: list[Literal["short", "medium", "long"]] = Field(
        ["short", "medium", "long"], min_length=1, description="sizes of the items"
    )
    arrivals: bool = Field(
        False,
        description="the training families come one after another, in the order given, each for an equal share of "
        "every run. Outside of its share a family has no training items, and no answer of it is "
        "remembered",
    )
    train_items: int = Field(8192, ge=1, le=10_000_000, description="items of the training set, the same for every arm")
    selection_items: int = Field(
        512, ge=1, le=1_000_000, description="items on which routers, checkpoints and strengths are chosen"
    )
    reselection_items: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="items of the OOD families on which the router `reselected` chooses who answers them",
    )
    holdout_items: int = Field(
        2048, ge=1, le=1_000_000, description="items in each of holdout_id, holdout_ood and retention"
    )
