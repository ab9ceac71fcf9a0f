"""The splits of a suite: which items each one draws, that no prompt is in two, and how they are written.

Rows of a user's task are cut as `tasks/cutting.py` says. Of every other family, items of `train` come from the
unreserved nine tenths, all others from the reserved tenth (`families.canonical`), so that they are disjoint from train,
and from what the nano host was pretrained on, by construction.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.errors import ConfigError, DataError
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical, reserved
from evolora_core.language.families.registry import get
from evolora_core.language.splits import HOLDOUTS, SPLITS
from evolora_core.language.tasks.cutting import take
from evolora_core.language.tasks.own import enter_beside
from evolora_core.language.tasks.pools import Pool

_DRAWS_PER_ITEM = 60  # a reserved prompt takes ten draws on average; a cell that needs six times that is nearly used up


class SplitSettings(Protocol):
    """What `build_splits` reads of a suite's data section."""

    @property
    def train_families(self) -> Sequence[str]: ...
    @property
    def ood_families(self) -> Sequence[str]: ...
    @property
    def retention_families(self) -> Sequence[str]: ...
    @property
    def depths(self) -> Sequence[str]: ...
    @property
    def train_items(self) -> int: ...
    @property
    def selection_items(self) -> int: ...
    @property
    def reselection_items(self) -> int: ...
    @property
    def holdout_items(self) -> int: ...


def build_splits(
    config: SplitSettings, seed: int, pools: Mapping[str, Pool] | None = None, *, tuning: bool = False
) -> dict[str, list[Item]]:
    """All splits that have items, each balanced over its (family, depth) cells and free of repeated prompts.

    `pools` are the rows of a user's tasks by name, `tuning` says whether settings are tuned on the seed. ConfigError as
    in `check_families`; DataError names a cell that has too few items.
    """
    cells = cells_of_splits(config)
    wanted = wanted_items(config, cells)
    seen: set[str] = set()
    found: dict[str, list[Item]] = {}
    for split in SPLITS:
        for cell, count in wanted.get(split, {}).items():
            pool = (pools or {}).get(cell[0])
            if pool is None:
                rng = stream(seed, 0, 0, f"dataset.{split}", *cell)
                items = draw_cell(rng, split, cell, count, seen, draws=_DRAWS_PER_ITEM, key=_key(split))
            else:
                items = _taken(pool, split, cell, wanted, seed, seen, tuning)
            found.setdefault(split, []).extend(items)
    return found


def check_rows(config: SplitSettings, pools: Mapping[str, Pool]) -> None:
    """Raise DataError, as `build_splits` does, for a user's task that has too few rows for the splits of a seed."""
    cells = cells_of_splits(config)
    own = {split: [cell for cell in found if cell[0] in pools] for split, found in cells.items()}
    wanted = wanted_items(config, cells)
    seen: set[str] = set()
    for split in SPLITS:
        for cell in own.get(split, ()) if split in wanted else ():
            _taken(pools[cell[0]], split, cell, wanted, 0, seen)


def _taken(
    pool: Pool,
    split: str,
    cell: tuple[str, str],
    wanted: Mapping[str, Mapping[tuple[str, str], int]],
    seed: int,
    seen: set[str],
    tuning: bool = False,
) -> list[Item]:
    """The rows of one cell of a task that a split of a seed takes, given how many rows the other splits want."""
    held_out = sum(own.get(cell, 0) for other, own in wanted.items() if other != "train")
    return take(
        pool, split, *cell, wanted[split][cell], seed, seen, wanted["train"].get(cell, 0), held_out, _key(split),
        tuning=tuning,
    )  # fmt: skip


def wanted_items(
    config: SplitSettings, cells: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, dict[tuple[str, str], int]]:
    """How many items of each cell every split that has items asks for; the first cells take the remainder."""
    sizes = dict.fromkeys(SPLITS, config.holdout_items) | {
        "train": config.train_items,
        "selection": config.selection_items,
        "reselection": config.reselection_items,
    }
    return {
        split: {cell: size // len(own) + (place < size % len(own)) for place, cell in enumerate(own)}
        for split, own in cells.items()
        if (size := sizes[split])
    }


def cells_of_splits(config: SplitSettings) -> dict[str, list[tuple[str, str]]]:
    """The (family, depth) cells of every split. ConfigError as in `check_families`."""
    cells = check_families(config)
    cells["selection"] = cells["holdout_id"] = cells["train"]
    cells["reselection"] = cells["holdout_ood"]
    return cells


def check_families(config: SplitSettings) -> dict[str, list[tuple[str, str]]]:
    """The (family, depth) cells of train, holdout_ood and retention.

    ConfigError for an unknown family, one that has none of the depths, one that stands twice or in two lists, and for
    a split with too few items for its cells.
    """
    cells = {
        "train": _cells(config, "train_families"),
        "holdout_ood": _cells(config, "ood_families"),
        "retention": _cells(config, "retention_families"),
    }
    trained = {family for family, _ in cells["train"]}
    for split, key in (("holdout_ood", "ood_families"), ("retention", "retention_families")):
        for family, _ in cells[split]:
            if family in trained:
                raise ConfigError(f"data.{key}: '{family}' is trained on too; take it out of one of the lists")
    if both := {family for family, _ in cells["holdout_ood"]} & {family for family, _ in cells["retention"]}:
        raise ConfigError(f"data.retention_families: '{min(both)}' is among ood_families too; take it out of one")
    _check_sizes(config, {split: len(found) for split, found in cells.items()})
    return cells


def _check_sizes(config: SplitSettings, cells: dict[str, int]) -> None:
    """Each family needs items in `selection`: one to be chosen for, and more than one for a router to learn it."""
    fewest = {
        "train_items": cells["train"],
        "selection_items": 2 * cells["train"],
        "reselection_items": cells["holdout_ood"] if config.reselection_items else 0,
        "holdout_items": max(cells.values()),
    }
    for key, least in fewest.items():
        if getattr(config, key) < least:
            raise ConfigError(f"data.{key}: {getattr(config, key)} are too few for the families and depths; {least} do")


def leak_counts(splits: dict[str, list[Item]]) -> list[dict[str, Any]]:
    """One row {split_a, split_b, shared} for each pair of splits: the number of canonical prompts that both have."""
    prompts = {name: {canonical(item.prompt) for item in items} for name, items in splits.items()}
    return [{"split_a": a, "split_b": b, "shared": len(prompts[a] & prompts[b])} for a, b in combinations(splits, 2)]


def check_disjoint(splits: dict[str, list[Item]]) -> list[dict[str, Any]]:
    """`leak_counts`, or DataError where two splits share a prompt or an OOD family was trained on."""
    rows = leak_counts(splits)
    for row in rows:
        if row["shared"]:
            raise DataError(
                f"splits {row['split_a']} and {row['split_b']} share {row['shared']} prompts; build them anew"
            )
    both = {item.family for item in splits.get("train", ())} & {item.family for item in splits.get("holdout_ood", ())}
    if both:
        raise DataError(f"family '{min(both)}' is in train and in holdout_ood; take it out of one of them")
    return rows


def write_items(path: Path, items: Sequence[Item]) -> None:
    """Write items as JSON Lines."""
    lines = [json.dumps(asdict(item), ensure_ascii=False, separators=(",", ":")) for item in items]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_items(path: Path) -> list[Item]:
    """Read what `write_items` wrote; tasks of a user that are defined beside it become known. DataError names the file
    and line that is no item.
    """
    items = []
    enter_beside(Path(path).parent)
    # str.splitlines would also split inside a string, at U+2028 and the like, which `write_items` leaves as they are.
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    if not lines[-1]:
        lines.pop()  # the last line ends too
    for number, line in enumerate(lines, start=1):
        try:
            items.append(Item(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}:{number}: not an item ({error}); build the datasets anew") from error
    return items


def _cells(config: SplitSettings, key: str) -> list[tuple[str, str]]:
    """The (family, depth) cells of one list of families, in its order."""
    cells: list[tuple[str, str]] = []
    for name in getattr(config, key):
        try:
            family = get(name)
        except ConfigError as error:
            raise ConfigError(f"data.{key}: {error}") from error
        known = family.depths if family.rows else [depth for depth in config.depths if depth in family.depths]
        found = [(family.name, depth) for depth in known]
        if any(other == family.name for other, _ in cells):
            raise ConfigError(f"data.{key}: '{family.name}' stands twice; keep one")
        if not found:
            raise ConfigError(f"data.depths: '{name}' has none of them; it has {', '.join(family.depths)}")
        cells.extend(found)
    return cells


def draw_cell(
    rng: np.random.Generator, split: str, cell: tuple[str, str], wanted: int, seen: set[str], *, draws: int, key: str
) -> list[Item]:
    """`wanted` items of a (family, depth); their prompts are added to `seen`, and none was in it.

    `train` has none of the prompts that are reserved for evaluation, every other split has only those. `draws` are made
    for an item, on average, before a cell is given up; DataError then names the `key` of a suite that says how many
    are wanted.
    """
    family, depth = get(cell[0]), cell[1]
    items: list[Item] = []
    for _ in range(1000 + draws * wanted):
        if len(items) == wanted:
            break
        item = family.make(rng, depth)
        prompt = canonical(item.prompt)
        if prompt not in seen and reserved(prompt) == (split != "train"):
            seen.add(prompt)
            items.append(item)
    if len(items) < wanted:
        raise DataError(f"{split}: cell {family.name}:{depth} has only {len(items)} of {wanted} items; lower {key}")
    return items


def _key(split: str) -> str:
    """The setting that says how many items a split has."""
    return "data.holdout_items" if split in HOLDOUTS else f"data.{split}_items"
