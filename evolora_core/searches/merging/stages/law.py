"""Stages `law-wWIDTH`: every subset of the parents of one base, merged by every method, measured on search items."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.merging.roles import role
from evolora_core.searches.merging.settings import Domain
from evolora_core.searches.merging.stages.base import named

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment
    from evolora_core.searches.merging.recipe import Genome

TABLE = "merge_law"
LAMBDA = 0.3  # of each task vector, however many there are: task arithmetic as published (arXiv 2212.04089)
DENSITY = 0.5  # share of a task vector's values that stay


class Merges(Strict):
    """What is merged by what."""

    parents: list[str]
    domains: dict[str, Domain]
    methods: list[str]


class Merged(BaseModel):
    """How many merges of models of how many parameters."""

    merges: int
    parameters: int


def request(
    suite: "Suite[MergeExperiment]",
    width: int,
    seed: int,
    *,
    base: StageResult,
    datasets: StageResult,
    parents: Sequence[StageResult],
) -> StageRequest:
    """All merges of a width."""
    config = suite.config
    assert config.law is not None
    roles = {role(name): result for name, result in zip(config.parents, parents, strict=True)}
    return stage_request(
        suite,
        named(width, "law"),
        SHARED,
        seed,
        entry=__name__,
        also=config.modules_of(config.domains),
        config=Merges(parents=config.parents, domains=config.domains, methods=list(config.law.methods)),
        inputs={"base": base, "datasets": datasets, **roles},
    )


def settings_of(method: str, merged: int) -> dict[str, Any]:
    """The parameters of a method for so many specialists. Nothing is tuned: a law is of a rule that one can follow."""
    share = 1 / merged
    return {
        "linear": {},
        "task_arithmetic": {"weight": LAMBDA},
        "ties": {"weight": 1.0, "density": DENSITY},  # a mean of those that agree on the sign
        "dare_linear": {"weight": share, "density": DENSITY},
        "dare_ties": {"weight": share, "density": DENSITY},
        "model_stock": {},
    }[method]


def merges_of(parents: Sequence[str], methods: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Every subset of the parents with every method that takes so many."""
    from evolora_core.searches.merging.law import subsets
    from evolora_core.searches.merging.operators.registry import get_operator

    return [
        (method, subset)
        for subset in subsets(parents)
        for method in methods
        if len(subset) >= get_operator(method).fewest
    ]


def recipe_of(method: str, subset: Sequence[str], seed: int) -> "Genome":
    """The recipe that merges a subset by a method."""
    from evolora_core.searches.merging.recipe import Genome, Merge, Node

    merge = Merge(op=method, inputs=list[Node](subset), params=settings_of(method, len(subset)))
    return Genome(recipe=merge, seed=seed)


def make(work: Work[Merges]) -> Made[Merged]:
    """Leaves the tables `merge_law`, in which what could not be measured has no loss, and `compute`. A killed one goes
    on from its last commit.
    """
    from evolora_core.searches.merging.judging.judge import Failed
    from evolora_core.searches.merging.stages.measuring import judge_of, measure_rows

    own, judge = work.config, judge_of(work, ["search"])
    size = judge.pool.host.model.num_parameters()
    merges = merges_of(own.parents, own.methods)

    def measured(number: int) -> dict[str, Any]:
        method, subset = merges[number]
        row = {"parameters": size, "method": method, "merged": len(subset), "subset": ",".join(subset)}
        try:
            found = judge.measure(recipe_of(method, subset, work.seed))
        except Failed:  # of a specialist that diverged, say
            return row | {"loss": None, "solved": None}
        return row | {"loss": -found.score, "solved": float(found.solved.mean())}

    measure_rows(work, judge, TABLE, len(merges), measured, "merges")
    return Made(judge.meter.total(), Merged(merges=len(merges), parameters=size))


LAW = Stage("law", request, make)
