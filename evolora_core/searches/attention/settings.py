"""Settings of an attention suite's parts."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from evolora_core.engine.strict import LATER, Strict
from evolora_core.searches.attention.host.sizes import SIZES, order
from evolora_core.searches.attention.names import STRATEGIES

MOST_RATES = 20  # learning rates of a grid
Framework = Literal["coefficient-dynamics", "test-time-regression", "matrix-mixer"]


class Training(Strict):
    """How every model is trained: AdamW, warm-up, cosine decay to 0. One rate for each size, tuned on the baseline."""

    steps: int = Field(600, ge=1, le=10_000_000, description="optimizer steps")
    batch: int = Field(16, ge=1, le=65_536, description="rows of a step")
    warmup: int = Field(50, ge=0, le=1_000_000, description="steps of linear warm-up")
    rates: list[float] = Field(
        [0.004, 0.008, 0.016, 0.032],
        min_length=1,
        max_length=MOST_RATES,
        description="peak learning rates that are tried at each size with the baseline; the best is every program's",
    )

    @field_validator("rates")
    @classmethod
    def _positive(cls, rates: list[float]) -> list[float]:
        if min(rates) <= 0:
            raise ValueError("learning rates are positive")
        if len(set(rates)) < len(rates):
            raise ValueError("name each learning rate once")
        return sorted(rates)

    @model_validator(mode="after")
    def _warm(self) -> "Training":
        if self.warmup > self.steps:
            raise ValueError(f"warmup: {self.warmup} steps of {self.steps}; make it smaller")
        return self


def rising(key: str, sizes: list[str]) -> None:
    """ValueError where sizes do not rise."""
    if sizes != sorted(set(sizes), key=order):
        raise ValueError(f"{key}: name each size once, from small to large")


class Sizes(Strict):
    """Sizes of the host model. Programs are selected on some; others are measured only at the end, and predicted."""

    measured: list[str] = Field(
        ["xs", "s", "m", "l"],
        min_length=2,
        max_length=10,
        description="sizes before the end, of "
        f"{', '.join(SIZES)}; a search measures its programs at the largest of them",
    )
    predicted: list[str] = Field(
        ["xl"], max_length=10, description="sizes that are predicted first, and measured once at the end"
    )

    @model_validator(mode="after")
    def _known(self) -> "Sizes":
        for name in [*self.measured, *self.predicted]:
            if name not in SIZES:
                raise ValueError(f"{name!r} is none of {', '.join(SIZES)}")
        for key in ("measured", "predicted"):
            rising(key, getattr(self, key))
        if self.predicted and order(self.predicted[0])[0] <= order(self.measured[-1])[0]:
            raise ValueError(f"predicted: {self.predicted[0]} is not larger than {self.measured[-1]}; name larger ones")
        return self


class Bounds(Strict):
    """What one evaluation may use."""

    minutes: float = Field(
        30,
        gt=0,
        le=100_000,
        description="minutes after which an evaluation is killed, without those in which others had the processors",
    )
    megabytes: int = Field(2048, ge=64, le=1_000_000, description="memory of one evaluation")


class Fresh(Strict):
    """What is measured of a search's programs with training seeds and texts that it never saw."""

    sizes: list[str]
    seeds: list[int]
    training: Training
    bounds: Bounds
    trusted: bool


class Budget(Bounds):
    """What a strategy may spend, in FLOPs: so many times what the baseline costs at the largest measured size."""

    programs: int = Field(35, ge=1, le=1_000_000, description="baseline measurements that a strategy may spend")
    together: int = Field(5, ge=1, le=1000, description="programs that are proposed at a time, from what is known then")
    parallel: int = Field(1, ge=1, le=256, description="measured at a time; changes no result but that of openevolve")
    seeds: int = Field(1, ge=1, le=100, description="training seeds of a program in the search")
    finalists: int = Field(
        3, ge=1, le=100, description="best programs that are measured with further seeds, as far as the budget reaches"
    )
    finalist_seeds: int = Field(1, ge=0, le=100, description="those further seeds")
    patience: int | None = Field(
        None, ge=1, le=1_000_000, description="stop after so many programs without a better one; none: spend the budget"
    )
    failures: int = Field(
        20, ge=1, le=1_000_000, description="stop after so many programs in a row that were refused or known"
    )

    @property
    def bounds(self) -> Bounds:
        """Those of one evaluation."""
        return Bounds(minutes=self.minutes, megabytes=self.megabytes)

    @model_validator(mode="after")
    def _enough(self) -> "Budget":
        kept = self.finalists * self.finalist_seeds
        if self.programs * self.seeds <= kept:
            raise ValueError(
                f"programs: {self.programs} with {self.seeds} seeds leave nothing for a search once {self.finalists} "
                f"finalists are measured with {self.finalist_seeds} further seeds; raise programs"
            )
        return self


def named_once(sizes: list[str]) -> list[str]:
    """The sizes. ValueError where one is named twice."""
    if len(set(sizes)) < len(sizes):
        raise ValueError("name each size once")
    return sizes


class Further(Strict):
    """What is measured of searches that have ended."""

    of: list[str] = Field(
        [],
        max_length=100,
        json_schema_extra=LATER,
        description="the searches for which it is done, of the conditions; []: all",
    )

    def covers(self, condition: str) -> bool:
        """Whether it is done for the search of this condition."""
        return not self.of or condition in self.of


class Ablation(Further):
    """The best program of each strategy without each of its parts, one at a time."""

    sizes: list[str] = Field(
        ["m"], max_length=10, description="sizes at which it is measured, of the measured ones; none: not at all"
    )
    seeds: int = Field(2, ge=1, le=100, description="fresh training seeds")

    @field_validator("sizes")
    @classmethod
    def _once(cls, sizes: list[str]) -> list[str]:
        return named_once(sizes)


class Ensemble(Further):
    """The best programs of each strategy answer together, beside as many models of the chosen one."""

    models: int = Field(0, ge=0, le=100, description="models that answer together, finalists at most; 0: not done")
    sizes: list[str] = Field(
        ["m"], min_length=1, max_length=10, description="sizes of the models, of the measured ones"
    )

    @field_validator("models")
    @classmethod
    def _several(cls, models: int) -> int:
        if models == 1:
            raise ValueError("one model is no ensemble; 0 leaves it out")
        return models

    @field_validator("sizes")
    @classmethod
    def _once(cls, sizes: list[str]) -> list[str]:
        return named_once(sizes)


class Table(Strict):
    """Every program of a small grammar is measured, and strategies are replayed on what is known of them."""

    sizes: list[str] = Field(
        ["xs", "s", "m", "l"], min_length=2, max_length=10, description="sizes of the programs, of the measured ones"
    )
    seeds: int = Field(
        2, ge=2, le=100, description="training seeds of each: the first is what a search sees, the others are the truth"
    )
    shards: int = Field(4, ge=1, le=576, description="stages that share the measuring of a size")
    strategies: list[str] = Field(
        list(STRATEGIES), min_length=1, max_length=20, description="strategies that are replayed on the table"
    )
    runs: int = Field(1000, ge=2, le=100_000, description="replayed runs of each strategy, each with a seed of its own")
    programs: int = Field(100, ge=1, le=576, description="distinct programs that a replayed run may measure")
    read_at: int = Field(35, ge=1, le=576, description="programs after which the declared effect is read")

    @model_validator(mode="after")
    def _fits(self) -> "Table":
        for name in self.sizes:
            if name not in SIZES:
                raise ValueError(f"sizes: {name!r} is none of {', '.join(SIZES)}")
        rising("sizes", self.sizes)
        for name in self.strategies:
            if name not in STRATEGIES:
                raise ValueError(f"strategies: {name!r} is none of {', '.join(STRATEGIES)}")
        if len(set(self.strategies)) < len(self.strategies):
            raise ValueError("strategies: name each strategy once")
        if self.read_at > self.programs:
            raise ValueError(f"read_at: {self.read_at} is more than the {self.programs} programs of a run")
        return self
