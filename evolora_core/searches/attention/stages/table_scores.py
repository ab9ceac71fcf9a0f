"""Stage `table-scores`: what every program of the exhaustive table is worth, once all of them are measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict

if TYPE_CHECKING:
    from evolora_core.searches.attention.exhaustive import Worth
    from evolora_core.searches.attention.experiment import AttentionExperiment

SCORES = "attention_table_scores"


class Scoring(Strict):
    """The sizes, and the training seeds: the first is that of the score, the others are those of the truth."""

    sizes: list[str]
    seeds: list[int]


class Scores(BaseModel):
    """How many programs have a score, and the greatest of them."""

    alive: int
    optimum: float


def request(suite: "Suite[AttentionExperiment]", seed: int, *, shards: Sequence[StageResult]) -> StageRequest:
    """Score the table of a run seed."""
    from evolora_core.searches.attention.seeds import selection_seeds

    settings = suite.config.table
    assert settings is not None
    return stage_request(
        suite,
        "table-scores",
        SHARED,
        seed,
        entry=__name__,
        config=Scoring(sizes=settings.sizes, seeds=selection_seeds(seed, settings.seeds)),
        inputs={own.stage: own for own in shards},
    )


def make(work: Work[Scoring]) -> Made[Scores]:
    """Leaves the table `attention_table_scores`."""
    from evolora_core.engine.tables import read_table, write_table
    from evolora_core.searches.attention.exhaustive import genomes, worths
    from evolora_core.searches.attention.grammar.genes import genome_json
    from evolora_core.searches.attention.stages.table import ROWS

    rows = [row for folder in work.inputs.values() for row in read_table(folder, ROWS)]
    table = worths(rows, work.config.sizes, work.config.seeds)
    write_table(work.folder, SCORES, [vars(own) | {"genome": genome_json(genomes()[own.program])} for own in table])
    scores = [own.score for own in table if own.score is not None]
    return Made(0, Scores(alive=len(scores), optimum=max(scores)))  # the baseline has one, 0


def read_scores(folder: Path) -> "list[Worth]":
    """What the stage left, by number."""
    from evolora_core.engine.tables import read_table
    from evolora_core.searches.attention.exhaustive import Worth

    rows = sorted(read_table(folder, SCORES), key=lambda row: int(row["program"]))
    return [Worth(row["program"], row["score"], row["truth"], row["reason"]) for row in rows]


TABLE_SCORES = Stage("table-scores", request, make)
