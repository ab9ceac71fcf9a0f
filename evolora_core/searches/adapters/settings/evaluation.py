"""Settings of the evaluation: routers, files of further items, and the comparisons that a suite declares."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from evolora_core.engine.strict import LATER, Strict, repeated
from evolora_core.language.splits import HOLDOUTS
from evolora_core.searches.adapters.settings.holdouts import HoldoutFile

Routing = Literal["single", "family", "cell", "learned"]
HoldoutRouting = Literal["single", "family", "cell", "learned", "reselected"]


class ComparisonConfig(Strict):
    """One declared comparison of two conditions on one split."""

    a: str = Field(description="condition whose advantage is tested")
    b: str = Field(description="condition that `a` is compared with")
    split: str = Field(
        max_length=100,
        description="holdout_id, holdout_ood, retention, or the split of a file in `holdouts`",
    )
    routing: HoldoutRouting | None = Field(
        None, description="router under which both answer; by default the headline's"
    )
    margin: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="loss in accuracy up to which `a` counts as not worse than `b`; the note says whether that "
        "was shown",
    )
    regime: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="name of this comparison's row on the map, such as `8 gold labels a family`; by default its "
        "arms. One of the two must be like ecology, the other like sft or single",
    )


class EvaluationConfig(Strict):
    """How the holdouts are answered and which claims are tested."""

    routings: list[HoldoutRouting] = Field(
        ["family", "single"],
        min_length=1,
        description="routers to evaluate; the first is the headline. `reselected` is `family`, but it chooses for "
        "the OOD families too, on the items of data.reselection_items",
    )
    comparisons: list[ComparisonConfig] = Field(
        max_length=6, description="comparisons that the suite declares before it is run, at most six"
    )
    bootstrap: int = Field(20_000, ge=100, le=10_000_000, description="resamples of the hierarchical bootstrap")
    strengths: list[Annotated[float, Field(gt=0, le=1000)]] = Field(
        [],
        max_length=100,
        description="factors of ΔW at which the adapter of the router `single` is evaluated too, for the frontier "
        "of gain and retention; 1 is always among them. []: no frontier",
    )
    frontier_items: int = Field(
        512,
        ge=1,
        le=1_000_000,
        description="items of `holdout_id`, and of `retention`, that each strength answers, evenly spread",
    )
    holdouts: list[HoldoutFile] = Field(
        [],
        max_length=20,
        json_schema_extra=LATER,
        description="holdout files that every condition answers once at the end, too, under every router",
    )
    variants: bool = Field(
        False,
        json_schema_extra=LATER,
        description="whether every condition, under the first router, also answers `holdout_id` with each prompt in "
        "five other forms (blank lines before or after it, headings, a dialogue, a sentence that has nothing to do "
        "with it), for the table `robustness`: five times the answers to that split",
    )

    @model_validator(mode="after")
    def _routed(self) -> "EvaluationConfig":
        if "reselected" in self.routings and ("family" not in self.routings or self.routings[0] == "reselected"):
            raise ValueError("routings: `reselected` is `family` and more; add `family`, and put another router first")
        if self.strengths and "single" not in self.routings:
            raise ValueError("strengths: it is the router `single` that is scaled; add it to the routings")
        return self

    @model_validator(mode="after")
    def _splits(self) -> "EvaluationConfig":
        names = [own.name for own in self.holdouts]
        if twice := repeated(names):
            raise ValueError(f"holdouts: two files are called {twice!r}; give one another name, by `split`")
        known = [*HOLDOUTS, *names]
        for pair in self.comparisons:
            if pair.split not in known:
                raise ValueError(f"comparisons: split {pair.split!r} is none of {', '.join(known)}")
        return self
