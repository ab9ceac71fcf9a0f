"""Stage `datasets`: the splits of one seed, the same for every condition."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import Field, RootModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, Suite, Work, stage_request
from evolora_core.engine.strict import LATER, Strict
from evolora_core.engine.tables import write_table
from evolora_core.language.data import DataConfig
from evolora_core.language.datasets import build_splits, check_disjoint, write_items
from evolora_core.language.families.base import Item
from evolora_core.language.tasks.own import (
    Definition,
    define,
    enter_beside,
    pools_of,
    refuse_changed_tasks,
    write_definitions,
)
from evolora_core.language.tasks.settings import TaskConfig

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig


class Splits(Strict):
    """What the splits depend on."""

    data: DataConfig
    tasks: list[TaskConfig] = Field(exclude=True)  # where rows lie; what they are is in the definitions
    definitions: list[Definition] = Field([], json_schema_extra=LATER)  # of the tasks
    tuning: bool = Field(False, json_schema_extra=LATER)  # whether settings are tuned on the seed; rows alone read it


class Sizes(RootModel[dict[str, int]]):
    """Items by split."""


def request(suite: "Suite[SuiteConfig]", seed: int) -> StageRequest:
    """Build the splits of `seed`."""
    data, tasks = suite.config.data, suite.config.own_families
    return stage_request(
        suite,
        "datasets",
        SHARED,
        seed,
        entry=__name__,
        also=suite.config.modules_of(data.train_families, data.ood_families, data.retention_families),
        config=Splits(
            data=data,
            tasks=tasks,
            definitions=[define(task) for task in tasks],
            tuning=bool(tasks) and seed in suite.config.tuning.seeds,
        ),
        inputs={},
        uses_host=False,
    )


def make(work: Work[Splits]) -> Made[Sizes]:
    """Leaves SPLIT.jsonl, what grades tasks of a user, and the tables `splits` and `leaks`. DataError if anything
    leaks.
    """
    own = work.config
    refuse_changed_tasks(own.tasks)
    write_definitions(work.folder, own.definitions)
    enter_beside(work.folder)
    splits = build_splits(own.data, work.seed, pools_of(own.tasks, own.definitions), tuning=own.tuning)
    write_table(work.folder, "leaks", check_disjoint(splits))
    write_table(work.folder, "splits", split_rows(splits))
    for name, items in splits.items():
        write_items(work.folder / f"{name}.jsonl", items)
    return Made(0, Sizes({name: len(items) for name, items in splits.items()}))


def split_rows(splits: Mapping[str, Sequence[Item]]) -> list[dict[str, str | int]]:
    """Rows of the table `splits`: size and hash of every (split, family, depth)."""
    cells: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for split, items in splits.items():
        for item in items:
            cells[split, item.family, item.depth].append(json.dumps(asdict(item), sort_keys=True))
    return [
        {
            "split": split,
            "family": family,
            "depth": depth,
            "n": len(texts),
            "sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
        }
        for (split, family, depth), texts in cells.items()
    ]


DATASETS = Stage("datasets", request, make)
