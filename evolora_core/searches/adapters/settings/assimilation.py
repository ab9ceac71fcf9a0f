"""Settings of merging in an ecology."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from evolora_core.engine.strict import LATER, Strict


class AssimilationConfig(Strict):
    """Merging: all learners at the end of a run, and pairs during it, whose child must pass a paired test to live."""

    sum_weight: float = Field(
        0.85,
        ge=0,
        le=10,
        description="factor of each proven learner's ΔW in the sum that is made at the end of a run, as the "
        "candidate that answers everything; 0: no sum. A run that merged pairs has its youngest "
        "living merged child as that candidate",
    )
    rehearsal: float = Field(
        0.0,
        ge=0,
        le=1,
        json_schema_extra=LATER,
        description="FLOPs for which the sum goes on learning, on what its parents remember, as a share of what the "
        "run has spent until then; a budget has them set aside. 0: it does not",
    )
    every: int = Field(4, ge=1, le=1_000_000, description="generations between two rounds of merging pairs")
    attempts: int = Field(0, ge=0, le=10_000, description="pairs that one round tries; their tests are charged")
    methods: list[Literal["weighted", "ties", "dare", "fisher"]] = Field(
        ["weighted"], min_length=1, description="ways to merge; each merge draws one"
    )
    fisher_rows: int = Field(
        64,
        ge=1,
        le=1_000_000,
        description="remembered answers of each parent, at most, from which `fisher` takes its information",
    )
    gains: list[Annotated[float, Field(gt=0, le=10)]] = Field(
        [1.2],
        min_length=1,
        max_length=100,
        description="sum of the two merge weights; each merge draws one. 1 averages the parents' ΔW, 2 adds them up",
    )
    alpha: float = Field(
        0.05,
        gt=0,
        lt=0.5,
        description="chance that the test of one pair accepts a child that is no better, over all looks together",
    )
    power: float = Field(
        0.8, gt=0.5, lt=1, description="chance that the test finds a gain of `uplift`; sets the largest sample"
    )
    uplift: float = Field(0.04, gt=0, lt=1, description="gain in accuracy that the test is built to find")
    discordance: float = Field(
        0.15,
        gt=0,
        le=1,
        description="share of the items on which child and parent are expected to differ; sets the largest sample",
    )
    looks: int = Field(
        4, ge=1, le=8, description="looks of the test at its sample; the sample doubles from look to look"
    )
    margin: float = Field(0.1, gt=0, lt=1, description="accuracy that a child may lose on the cells of its parents")

    @model_validator(mode="after")
    def _there_is_a_sum(self) -> "AssimilationConfig":
        if self.rehearsal and not self.sum_weight:
            raise ValueError(
                "rehearsal: it is the sum that rehearses, and sum_weight: 0 makes none; take one of them out"
            )
        return self
