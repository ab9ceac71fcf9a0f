"""Stage `datasets`: the four splits of one seed, the same for every condition."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import RootModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.engine.tables import write_table
from evolora_core.language.datasets import leak_counts, read_items, write_items
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import modules_of
from evolora_core.searches.merging.settings import DataSettings, Domain

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment


class SplitsOf(Strict):
    """What the splits depend on."""

    domains: dict[str, Domain]
    data: DataSettings


class Sizes(RootModel[dict[str, int]]):
    """Items by split."""


def family_modules(domains: dict[str, Domain]) -> list[str]:
    """The modules of all families of a suite."""
    return modules_of(sorted({family for domain in domains.values() for family in domain.families}))


def request(suite: "Suite[MergeExperiment]", seed: int) -> StageRequest:
    """Build the splits of `seed`."""
    config = SplitsOf(domains=suite.config.domains, data=suite.config.data)
    also = family_modules(suite.config.domains)
    return stage_request(
        suite, "datasets", SHARED, seed, entry=__name__, also=also, config=config, inputs={}, uses_host=False
    )


def make(work: Work[SplitsOf]) -> Made[Sizes]:
    """Leaves SPLIT/DOMAIN.jsonl and the tables `splits` and `leaks`."""
    from evolora_core.searches.merging.data import by_name, draw_splits

    splits = draw_splits(work.config.domains, work.config.data, work.seed)
    rows = []
    for split, domains in splits.items():
        (work.folder / split).mkdir(exist_ok=True)
        for name, items in domains.items():
            write_items(work.folder / split / f"{name}.jsonl", items)
            for family, depth in sorted({(item.family, item.depth) for item in items}):
                own = [item for item in items if (item.family, item.depth) == (family, depth)]
                text = "\n".join(json.dumps(asdict(item), sort_keys=True) for item in own)
                digest = hashlib.sha256(text.encode()).hexdigest()
                rows.append({"split": split, "family": family, "depth": depth, "n": len(own), "sha256": digest})
    write_table(work.folder, "splits", rows)
    write_table(work.folder, "leaks", leak_counts(by_name(splits)))
    return Made(0, Sizes({split: sum(map(len, own.values())) for split, own in splits.items()}))


def read_split(folder: Path, split: str, domains: dict[str, Domain]) -> dict[str, list[Item]]:
    """The items of a split by domain."""
    return {name: read_items(folder / split / f"{name}.jsonl") for name in domains}


DATASETS = Stage("datasets", request, make)
