"""Stage `datasets`: the splits of one seed, the same for every condition."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tasks._stage import Made, StageRequest, Suite, Work, stage_request, stage_task
from tasks._tables import write_table

if TYPE_CHECKING:
    from evolora_core.families.base import Item


def request(suite: Suite, seed: int) -> StageRequest:
    """Build the splits of `seed`."""
    config = {"data": suite.config.data.model_dump(mode="json")}
    return stage_request(
        suite,
        "datasets",
        "shared",
        seed,
        entry=__name__,
        config=config,
        inputs={},
        uses_host=False,
        also=suite.families,
    )


def make(work: Work) -> Made:
    """Leaves SPLIT.jsonl and the tables `splits` and `leaks`. DataError if anything leaks."""
    from evolora_core.config import DataConfig
    from evolora_core.datasets import build_splits, check_disjoint, write_items

    splits = build_splits(DataConfig.model_validate(work.config["data"]), work.seed)
    write_table(work.folder, "leaks", check_disjoint(splits))
    write_table(work.folder, "splits", split_rows(splits))
    for name, items in splits.items():
        write_items(work.folder / f"{name}.jsonl", items)
    return Made(summary={name: len(items) for name, items in splits.items()})


def split_rows(splits: Mapping[str, Sequence["Item"]]) -> list[dict[str, Any]]:
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


datasets = stage_task("datasets", request, make)
