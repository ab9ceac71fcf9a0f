"""Stage `landmarks`: where the parents and the best models of a landscape lie, once every model is known."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.engine.stage import (
    SHARED,
    Made,
    NoFacts,
    Stage,
    StageRequest,
    StageResult,
    Suite,
    Work,
    stage_request,
)
from evolora_core.engine.strict import Strict
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.stages.landscape import ROUTES, TABLE

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment
    from evolora_core.searches.merging.spaces.routes import Routes


class Known(Strict):
    """The space whose every model is known: parents, and layers of each."""

    parents: list[str]
    layers: int


def request(suite: "Suite[MergeExperiment]", seed: int, *, shards: Sequence[StageResult]) -> StageRequest:
    """The landmarks of the landscape of a seed."""
    return stage_request(
        suite,
        "landmarks",
        SHARED,
        seed,
        entry=__name__,
        also=[ROUTES],
        config=Known(parents=suite.config.parents, layers=layers_of(shards)),
        inputs=inputs_of(shards),
        uses_host=False,
    )


def make(work: Work[Known]) -> Made[NoFacts]:
    """Leaves the table `landscape_marks`."""
    from evolora_core.engine.tables import write_table

    own = work.config
    rows, space = models(work.inputs.values()), space_of(own.parents, own.layers)
    marks = [*zip(own.parents, parents_in(space), strict=True)]
    marks += [(f"optimum of {split}", _best(rows, f"{split}_score")) for split in ("search", "test")]
    keys = ("model", "genes", "search_score", "test_score", "test_solved")
    write_table(
        work.folder,
        "landscape_marks",
        [{"what": what} | {key: rows[model][key] for key in keys} for what, model in marks],
    )
    return Made(0, NoFacts())


def layers_of(shards: Sequence[StageResult]) -> int:
    """Layers of the parents that were measured."""
    return int(shards[0].summary["layers"])  # type: ignore[arg-type]


def inputs_of(shards: Sequence[StageResult]) -> dict[str, StageResult]:
    """The shards as inputs of a stage."""
    return {f"shard-{number}": result for number, result in enumerate(shards)}


def models(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """The rows of all models, by number."""
    from evolora_core.engine.tables import read_table

    return sorted((row for folder in folders for row in read_table(folder, TABLE)), key=lambda row: row["model"])


def space_of(parents: Sequence[str], layers: int) -> "Routes":
    """The space of the landscape."""
    from evolora_core.searches.merging.spaces.routes import Routes

    return Routes(tuple(parents), layers, BASE)


def parents_in(space: "Routes") -> list[int]:
    """Numbers of the models that equal one parent in all layers; embeddings, last norm and head may differ."""
    return [space.number((space.gene(place, 1),) * space.layers) for place in range(len(space.parents))]


def _best(rows: Sequence[dict[str, Any]], key: str) -> int:
    """The number of the model with the greatest score; of equal ones the first."""
    alive = [row for row in rows if row[key] is not None]
    return max(alive, key=lambda row: (row[key], -row["model"]))["model"]  # type: ignore[no-any-return]


LANDMARKS = Stage("landmarks", request, make)
