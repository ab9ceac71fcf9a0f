"""The stages that close a suite of any search: the comparisons that it declares, and its pack."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from pydantic import BaseModel

from evolora_core.engine.stage import (
    JUDGED,
    WHOLE,
    Made,
    NoFacts,
    Stage,
    StageRequest,
    StageResult,
    Step,
    Suite,
    Work,
    stage_request,
    step_name,
)
from evolora_core.engine.strict import Strict
from evolora_core.home import home_path
from evolora_core.plugins import search_modules
from evolora_core.searches.base import Experiment
from evolora_core.searches.registry import get_search

COMPARISON, PACK = step_name(WHOLE, 0, "compare"), step_name(WHOLE, 0, "pack")


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
    """What of a declared comparison decides numbers."""

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


class Packed(Strict):
    """What a pack is of: the stages that were made, each with its identity and the seconds that it took. Seconds are
    shown in a pack, so a stage that was made again makes a new one.
    """

    suite: str
    seeds: list[int]
    stages: dict[str, tuple[str, float]]
    sections: str


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
        entry="evolora_core.evaluation.comparisons",
        config=Comparisons(comparisons=pairs, bootstrap=bootstrap),
        inputs={f"{result.condition}.s{result.seed}": result for result in evaluations},
        uses_host=False,
    )


def compare(work: Work[Comparisons]) -> Made[Verdicts]:
    """Leaves the tables `comparisons` and `accuracies`. StageError where conditions were not measured alike."""
    from evolora_core.evaluation.comparisons import write_comparisons

    folders = {(result.condition, result.seed): work.inputs[role] for role, result in work.results.items()}
    declared = [pair.model_dump() for pair in work.config.comparisons]
    tables = write_comparisons(folders, declared, work.folder, work.config.bootstrap)
    return Made(0, Verdicts(verdicts=in_words(tables["comparisons"])))


def in_words(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The verdicts of rows of the table `comparisons`."""
    return {f"{row['a']} vs {row['b']} on {row['split']}": row["verdict"] for row in comparisons}


def request_pack(
    suite: Suite[Experiment], seeds: Sequence[int], made: Mapping[str, StageResult], *, comparison: StageResult
) -> StageRequest:
    """Pack what is recorded of the stages that were `made`, by name, and of the comparison."""
    stages = {name: (result.identity, result.seconds) for name, result in made.items()}
    stages["comparison"] = (comparison.identity, comparison.seconds)
    sections = get_search(suite.config.search).sections
    return stage_request(
        suite,
        "pack",
        WHOLE,
        0,
        entry="evolora_core.report.pack",
        also=[sections, f"{search_modules()[suite.config.search]}.sql"],
        config=Packed(suite=str(suite.id), seeds=list(seeds), stages=stages, sections=sections),
        inputs={},
        uses_host=False,
    )


def pack(work: Work[Packed]) -> Made[NoFacts]:
    """Leaves the pack in pack/, made from the store."""
    from evolora_core.report.pack import build

    sections = import_module(work.config.sections).SECTIONS
    build(home_path(), work.config.suite, work.folder / "pack", sections)
    return Made(0, NoFacts())


def compare_step(
    suite: Suite[Any], seeds: Sequence[int], plan: Sequence[Step], declared: Sequence[Declared], bootstrap: int
) -> Step:
    """Compare the conditions on the seeds that are complete."""
    wanted = {step_name(condition, seed, JUDGED) for condition in suite.config.conditions for seed in seeds}
    evaluations = [step for step in plan if step.name in wanted]
    given = {"suite": suite, "declared": declared, "bootstrap": bootstrap}
    return Step(COMPARISON, COMPARE, given, {"evaluations": evaluations})


def pack_step(suite: Suite[Any], seeds: Sequence[int], results: Mapping[str, StageResult], comparison: Step) -> Step:
    """Pack the suite once it is compared."""
    given = {"suite": suite, "seeds": list(seeds), "made": dict(results)}
    return Step(PACK, BUILD_PACK, given, {"comparison": comparison})


COMPARE = Stage("compare", request_comparison, compare)
BUILD_PACK = Stage("pack", request_pack, pack)
