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
    from evolora_core.searches.merging.judging.judge import Judge
    from evolora_core.searches.merging.judging.prefixes import Prefixes
    from evolora_core.searches.merging.spaces.routes import Routes

ROUTES = "evolora_core.searches.merging.spaces.routes"
SPLITS = ("search", "test")
TOGETHER = 100  # models between two commits
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
    import shutil

    from evolora_core.engine.commits import commit, latest
    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import read_table, write_table
    from evolora_core.searches.merging.judging.prefixes import Prefixes
    from evolora_core.searches.merging.spaces.routes import Routes

    own, judge = work.config, _judge(work)
    space = Routes(tuple(own.parents), judge.pool.layers, BASE)
    check_size(space, own.shards)
    numbers = stretch(space, own.shard, own.shards)
    checkpoints = work.folder / "checkpoints"
    rows: list[dict[str, Any]] = []
    done = 0
    prefixes = Prefixes(judge, space)
    if last := latest(checkpoints):
        done = last.number
        rows = [row for segment in last.segments for row in read_table(segment, TABLE)]
        prefixes.judge(space.numbered(numbers[len(rows) - 1]))  # what the next one has in common with it is at hand
        judge.meter = Meter.from_state(json.loads((last.folder / "meter.json").read_text()))
    else:
        prefixes.check()
    while len(rows) < len(numbers):
        added = [_row(prefixes, space, number) for number in numbers[len(rows) : len(rows) + TOGETHER]]
        rows += added
        done += 1
        commit(
            checkpoints,
            done,
            lambda into: _write(into / "meter.json", judge.meter.state()),
            lambda into, added=added: write_table(into, TABLE, added),  # type: ignore[misc]
        )
        work.report(len(rows), len(numbers), f"models of {space.models}")
    write_table(work.folder, TABLE, rows)
    write_table(work.folder, "compute", judge.meter.rows())
    shutil.rmtree(checkpoints)
    return Made(judge.meter.total(), Measured(models=len(rows), layers=judge.pool.layers))


def _judge(work: Work[Shard]) -> "Judge":
    from evolora_core.searches.merging.judging.judge import Judge
    from evolora_core.searches.merging.judging.scoring import Questions
    from evolora_core.searches.merging.pool import pool_of
    from evolora_core.searches.merging.stages.datasets import read_split

    pool, domains = pool_of(work, work.config.parents), work.config.domains
    weights = {name: domain.weight for name, domain in domains.items()}
    folder = work.inputs["datasets"]
    return Judge(
        pool, {split: Questions.of(pool.host, read_split(folder, split, domains), weights) for split in SPLITS}
    )


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


def _write(path: Any, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


LANDSCAPE = Stage("landscape", request, make)
