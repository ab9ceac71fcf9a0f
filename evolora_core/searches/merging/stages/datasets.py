"""Stage `datasets`: the four splits of one seed, the same for every condition."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, RootModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, Suite, Work, stage_request
from evolora_core.engine.strict import LATER, Strict
from evolora_core.engine.tables import write_table
from evolora_core.language.datasets import check_disjoint, read_items, write_items
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
from evolora_core.searches.merging.settings import DataSettings, Domain

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment


class SplitsOf(Strict):
    """What the splits depend on."""

    domains: dict[str, Domain]
    data: DataSettings
    trains: bool = Field(True, json_schema_extra=LATER)  # whether anything is trained on the split of that name
    tasks: list[TaskConfig] = Field(exclude=True)  # where rows lie; what they are is in the definitions
    definitions: list[Definition] = Field([], json_schema_extra=LATER)  # of the tasks


class Sizes(RootModel[dict[str, int]]):
    """Items by split."""


def request(suite: "Suite[MergeExperiment]", seed: int) -> StageRequest:
    """Build the splits of `seed`."""
    domains, tasks = suite.config.domains, suite.config.own_families
    config = SplitsOf(
        domains=domains,
        data=suite.config.data,
        trains=suite.config.trains,
        tasks=tasks,
        definitions=[define(task) for task in tasks],
    )
    also = suite.config.modules_of(domains)
    return stage_request(
        suite, "datasets", SHARED, seed, entry=__name__, also=also, config=config, inputs={}, uses_host=False
    )


def make(work: Work[SplitsOf]) -> Made[Sizes]:
    """Leaves SPLIT/DOMAIN.jsonl, what grades tasks of a user, and the tables `splits` and `leaks`. DataError if
    anything leaks.
    """
    from evolora_core.searches.merging.data import by_name, draw_splits

    own = work.config
    refuse_changed_tasks(own.tasks)
    write_definitions(work.folder, own.definitions)
    enter_beside(work.folder)
    splits = draw_splits(own.domains, own.data, work.seed, pools_of(own.tasks, own.definitions), own.trains)
    rows = []
    for split, domains in splits.items():
        (work.folder / split).mkdir(exist_ok=True)
        for name, items in domains.items():
            write_items(work.folder / split / f"{name}.jsonl", items)
            for family, depth in sorted({(item.family, item.depth) for item in items}):
                cell = [item for item in items if (item.family, item.depth) == (family, depth)]
                text = "\n".join(json.dumps(asdict(item), sort_keys=True) for item in cell)
                digest = hashlib.sha256(text.encode()).hexdigest()
                rows.append({"split": split, "family": family, "depth": depth, "n": len(cell), "sha256": digest})
    write_table(work.folder, "splits", rows)
    write_table(work.folder, "leaks", check_disjoint(by_name(splits)))
    return Made(0, Sizes({split: sum(map(len, own.values())) for split, own in splits.items()}))


def read_split(folder: Path, split: str, domains: dict[str, Domain]) -> dict[str, list[Item]]:
    """The items of a split by domain; tasks of a user that grade them become known."""
    enter_beside(folder)
    return {name: read_items(folder / split / f"{name}.jsonl") for name in domains}


DATASETS = Stage("datasets", request, make)
