"""Stages `landscape-K`: every distinct layer route of the parents, measured once on the search and the test items, in
shards.

It is an instrument, not an arm: what it sees of the test items no condition uses.
"""

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.errors import ConfigError
from evolora_core.searches.merging.roles import BASE, role
from evolora_core.searches.merging.settings import Domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evolora_core.searches.merging.experiment import MergeExperiment
    from evolora_core.searches.merging.judging.prefixes import Prefixes
    from evolora_core.searches.merging.spaces.routes import Routes

ROUTES = "evolora_core.searches.merging.spaces.routes"
SPLITS = ("search", "test")
TABLE = "landscape"
MOST_MODELS = 1_000_000  # that are measured and kept as rows: 64 layers of two parents would be 5^64


class Shard(Strict):
    """A stretch of the models, in the order in which neighbours begin alike."""

    parents: list[str]
    domains: dict[str, Domain]
    shard: int
    shards: int


class Measured(BaseModel):
    """How many models, of parents with how many layers."""

    models: int
    layers: int


def request(
    suite: "Suite[MergeExperiment]",
    shard: int,
    seed: int,
    *,
    base: StageResult,
    datasets: StageResult,
    parents: "Sequence[StageResult]",
) -> StageRequest:
    """A shard of the landscape of a seed."""
    config = suite.config
    assert config.landscape is not None
    named = {role(name): result for name, result in zip(config.parents, parents, strict=True)}
    return stage_request(
        suite,
        f"landscape-{shard}",
        SHARED,
        seed,
        entry=__name__,
        also=[ROUTES, *config.modules_of(config.domains)],
        config=Shard(parents=config.parents, domains=config.domains, shard=shard, shards=config.landscape.shards),
        inputs={"base": base, "datasets": datasets, **named},
    )


def make(work: Work[Shard]) -> Made[Measured]:
    """Leaves the table `landscape` and `compute`. A killed shard goes on from its last commit.

    ConfigError: a base whose layers cannot be run one by one, or has too many.
    """
    from evolora_core.searches.merging.judging.prefixes import Prefixes
    from evolora_core.searches.merging.spaces.routes import Routes
    from evolora_core.searches.merging.stages.measuring import judge_of, measure_rows

    own, judge = work.config, judge_of(work, SPLITS)
    space = Routes(tuple(own.parents), judge.pool.layers, BASE)
    check_size(space, own.shards)
    numbers = stretch(space, own.shard, own.shards)
    prefixes = Prefixes(judge, space)

    def begin(done: int) -> None:
        if done:
            prefixes.judge(space.numbered(numbers[done - 1]))  # what the next one has in common with it is at hand
        else:
            prefixes.check()

    def measured(place: int) -> dict[str, Any]:
        return _row(prefixes, space, numbers[place])

    measure_rows(work, judge, TABLE, len(numbers), measured, f"models of {space.models}", begin)
    return Made(judge.meter.total(), Measured(models=len(numbers), layers=judge.pool.layers))


def check_size(space: "Routes", shards: int) -> None:
    """ConfigError unless every model of the space can be measured, and each of so many shards has one."""
    if shards > space.models:
        raise ConfigError(f"landscape.shards: {shards} shards for {space.models} models; name at most as many")
    if space.models > MOST_MODELS:
        raise ConfigError(
            f"landscape: {space.layers} layers of {len(space.parents)} parents have {space.alleles}^{space.layers} "
            f"routes, and at most {MOST_MODELS:,} are measured; take a base with fewer layers, or leave it out"
        )


def stretch(space: "Routes", shard: int, shards: int) -> list[int]:
    """The numbers of a shard's models: a part of all, sorted by genes, so that neighbours begin alike."""
    ordered = sorted(range(space.models), key=space.numbered)
    return ordered[shard * len(ordered) // shards : (shard + 1) * len(ordered) // shards]


def _row(prefixes: "Prefixes", space: "Routes", number: int) -> dict[str, Any]:
    """The row of a model: what both splits say of it. `solved` has a bit for each search item, `domains` its scores."""
    import numpy as np

    genome = space.distinct(number)
    row: dict[str, Any] = {"model": number, "genes": space.describe(number), "genome_id": genome.id}
    found = prefixes.judge(space.numbered(number))
    if not all(np.isfinite(own.domains).all() for own in found.values()):
        nothing = ("search_score", "test_score", "search_solved", "test_solved", "domains", "solved")
        return row | dict.fromkeys(nothing) | {"reason": "its log-likelihood is not finite"}
    return row | {
        "search_score": found["search"].score,
        "test_score": found["test"].score,
        "search_solved": float(found["search"].solved.mean()),
        "test_solved": float(found["test"].solved.mean()),
        "domains": json.dumps([round(float(own), 9) for own in found["search"].domains]),
        "solved": np.packbits(found["search"].solved).tobytes().hex(),
        "reason": "",
    }


LANDSCAPE = Stage("landscape", request, make)
