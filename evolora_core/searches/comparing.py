"""The stage `compare` of a suite of any search: the comparisons that it declares, over the seeds that are complete."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import BaseModel

from evolora_core.engine.run_index import step_name
from evolora_core.engine.stage import (
    JUDGED,
    WHOLE,
    Made,
    Stage,
    StageRequest,
    StageResult,
    Step,
    Suite,
    Work,
    stage_request,
)
from evolora_core.engine.strict import Strict

COMPARISON = step_name(WHOLE, 0, "compare")


class Declared(Protocol):
    """A declared comparison: two conditions on one split, under one router, perhaps with a margin."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def split(self) -> str: ...
    @property
    def routing(self) -> str | None: ...
    @property
    def margin(self) -> float | None: ...


class Pair(Strict):
    """The parts of a declared comparison that decide numbers."""

    a: str
    b: str
    split: str
    routing: str | None
    margin: float | None


class Comparisons(Strict):
    """The declared comparisons, and how many resamples their intervals have."""

    comparisons: list[Pair]
    bootstrap: int


class Verdicts(BaseModel):
    """Verdict by comparison, in words."""

    verdicts: dict[str, str]


def request_comparison(
    suite: Suite[Any], declared: Sequence[Declared], bootstrap: int, *, evaluations: Sequence[StageResult]
) -> StageRequest:
    """Compare the evaluations of complete seeds."""
    pairs = [Pair(a=own.a, b=own.b, split=own.split, routing=own.routing, margin=own.margin) for own in declared]
    return stage_request(
        suite,
        "compare",
        WHOLE,
        0,
        entry=__name__,
        config=Comparisons(comparisons=pairs, bootstrap=bootstrap),
        inputs={f"{result.condition}.s{result.seed}": result for result in evaluations},
        uses_host=False,
    )


def compare(work: Work[Comparisons]) -> Made[Verdicts]:
    """Leaves the tables `comparisons` and `accuracies`. StageError where conditions were not measured alike."""
    from evolora_core.statistics.comparisons import write_comparisons

    folders = {(result.condition, result.seed): work.inputs[role] for role, result in work.results.items()}
    declared = [pair.model_dump() for pair in work.config.comparisons]
    tables = write_comparisons(folders, declared, work.folder, work.config.bootstrap)
    return Made(0, Verdicts(verdicts=in_words(tables["comparisons"])))


def in_words(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The verdicts of rows of the table `comparisons`, or of one like it that has no splits."""
    return {f"{row['a']} vs {row['b']}{_place(row)}": row["verdict"] for row in comparisons}


def _place(row: Mapping[str, Any]) -> str:
    router = "" if row.get("routing", "headline") == "headline" else f" by router {row['routing']}"
    return f" on {row['split']}{router}" if "split" in row else ""


def compare_step(
    suite: Suite[Any], seeds: Sequence[int], plan: Sequence[Step], declared: Sequence[Declared], bootstrap: int
) -> Step:
    """Compare the conditions on the seeds that are complete."""
    wanted = {step_name(condition, seed, JUDGED) for condition in suite.config.conditions for seed in seeds}
    evaluations = [step for step in plan if step.name in wanted]
    given = {"suite": suite, "declared": declared, "bootstrap": bootstrap}
    return Step(COMPARISON, COMPARE, given, {"evaluations": evaluations})


COMPARE = Stage("compare", request_comparison, compare)
