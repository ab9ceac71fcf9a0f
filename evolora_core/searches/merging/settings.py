"""Settings of a merge suite's parts."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from evolora_core.engine.strict import Strict, repeated
from evolora_core.searches.merging.names import STRATEGIES

SPLITS = ("train", "search", "selection", "test")  # in the order in which they are drawn


def _once(values: list[Any]) -> list[Any]:
    if (twice := repeated(values)) is not None:
        raise ValueError(f"{twice} stands twice; keep one")
    return values


class Domain(Strict):
    """One kind of ability, with the families that ask for it."""

    families: list[str] = Field(min_length=1, max_length=20, description="families whose items ask for it")
    depths: Annotated[list[Literal["short", "medium", "long"]], AfterValidator(_once)] = Field(
        ["short"],
        min_length=1,
        max_length=3,
        description="sizes of the items; rows of your own have those of their column",
    )
    weight: float = Field(
        0.25,
        ge=0,
        le=1000,
        description="weight in the score that searches see, relative to the others'; the test counts items alike",
    )


class DataSettings(Strict):
    """Items of each domain in each split. No prompt is in two splits."""

    train: int = Field(
        4096, ge=1, le=1_000_000, description="items a domain, on which specialists and `multitask` are trained"
    )
    search: int = Field(64, ge=1, le=100_000, description="items a domain, on which candidates are measured")
    selection: int = Field(64, ge=1, le=100_000, description="items a domain, on which a run chooses among its best")
    test: int = Field(256, ge=1, le=100_000, description="items a domain, opened once a run, at its end")


class FineTuning(Strict):
    """Full fine-tuning: AdamW, linear warm-up and decay, on answers alone."""

    steps: int = Field(200, ge=1, le=1_000_000, description="optimizer steps of each specialist")
    rows: int = Field(64, ge=1, le=65_536, description="items in a step")
    learning_rate: float = Field(3e-4, gt=0, le=1, description="peak learning rate")


class Gradients(Strict):
    """Gradient descent within the budget; each learning rate gets an equal share of it."""

    learning_rates: list[float] = Field(
        min_length=1, max_length=8, description="peak learning rates that are tried; the selection items choose"
    )
    share: float = Field(0.25, gt=0, le=1, description="share of the search items in a step")
    checkpoints: int = Field(4, ge=1, le=100, description="states of each try that the selection items choose among")

    @field_validator("learning_rates")
    @classmethod
    def _positive(cls, rates: list[float]) -> list[float]:
        if min(rates) <= 0:
            raise ValueError("learning rates are positive")
        return rates


class Budget(Strict):
    """What a strategy or control may spend, in measurements of a plain model on all search items. FLOPs are charged:
    a deeper model costs more than one, a gradient three.
    """

    evaluations: int = Field(120, ge=1, le=1_000_000, description="measurements of a plain model")
    finalists: int = Field(
        8, ge=1, le=1000, description="best candidates that are measured on the selection items too, within the budget"
    )
    generations: int = Field(1000, ge=1, le=1_000_000, description="generations at most")


class Landscape(Strict):
    """The whole space of layer routes is measured, and strategies are replayed on what is known of it."""

    strategies: Annotated[list[str], AfterValidator(_once)] = Field(
        ["random", "hill-climbing", "evomerge", "niches", "cycleqd", "cma"],
        min_length=1,
        max_length=20,
        description="strategies that walk the space in replay",
    )
    runs: int = Field(1000, ge=2, le=100_000, description="replayed runs of each strategy, each with a seed of its own")
    evaluations: int = Field(1000, ge=10, le=100_000, description="distinct models that a replayed run may measure")
    read_at: int = Field(250, ge=1, le=100_000, description="evaluations after which the declared hypothesis is read")
    shards: int = Field(4, ge=1, le=1000, description="stages that share the measuring")

    @field_validator("strategies")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in STRATEGIES:
                raise ValueError(f"{name!r} is none of {', '.join(STRATEGIES)}")
        return names

    @model_validator(mode="after")
    def _is_reached(self) -> "Landscape":
        if self.read_at > self.evaluations:
            raise ValueError(f"read_at: {self.read_at} is more than the {self.evaluations} evaluations of a run")
        return self


class Law(Strict):
    """Every subset of the parents is merged by every method, for bases of several widths: how loss falls with both."""

    widths: Annotated[list[int], AfterValidator(_once)] = Field(
        [48, 64, 96], min_length=1, max_length=10, description="hidden sizes of the bases, each trained for the suite"
    )
    methods: Annotated[
        list[Literal["linear", "task_arithmetic", "ties", "dare_linear", "dare_ties", "model_stock"]],
        AfterValidator(_once),
    ] = Field(
        ["linear", "task_arithmetic", "ties", "dare_ties"], min_length=1, description="operators that merge a subset"
    )
    fitted: int = Field(5, ge=2, le=64, description="largest subsets that the law is fitted on")
    first_predicted: int = Field(7, ge=3, le=64, description="smallest subsets that it is judged on")
    bootstrap: int = Field(200, ge=10, le=10_000, description="resamples of the subsets, for intervals")

    @model_validator(mode="after")
    def _predicts(self) -> "Law":
        if self.first_predicted <= self.fitted:
            raise ValueError(
                f"first_predicted: subsets of {self.first_predicted} are fitted too; name more than {self.fitted}"
            )
        return self
