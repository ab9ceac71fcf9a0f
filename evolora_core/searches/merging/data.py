"""The four splits of a merge suite: equal numbers of each domain, no prompt twice, nothing reserved in `train`."""

from collections import Counter
from collections.abc import Mapping

from evolora_core.engine.rng import stream
from evolora_core.language.datasets import draw_cell
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import get as get_family
from evolora_core.language.tasks.cutting import take
from evolora_core.language.tasks.pools import Pool
from evolora_core.searches.merging.settings import SPLITS, DataSettings, Domain

_DRAWS_PER_ITEM = 400  # a tenth of the prompts is reserved, and a small cell repeats itself
Splits = dict[str, dict[str, list[Item]]]  # split -> domain -> items
Cell = tuple[str, str]  # family, depth
Wanted = dict[str, dict[str, dict[Cell, int]]]  # split -> domain -> cell -> items


def draw_splits(
    domains: Mapping[str, Domain],
    data: DataSettings,
    seed: int,
    pools: Mapping[str, Pool] | None = None,
    trains: bool = True,
) -> Splits:
    """The items of each split by domain. The families and depths of a domain take turns. Where nothing `trains`, the
    split `train` is empty.

    Of drawn families `train` has none of the prompts that are reserved for evaluation, the other splits have only
    those: what a base was pretrained on is in none of them. `pools` are the rows of a user's tasks by name; they are
    cut as `language/tasks/cutting.py` says. DataError where a cell has too few items.
    """
    return _draw(_wanted(domains, data, trains), seed, pools or {})


def check_rows(domains: Mapping[str, Domain], data: DataSettings, pools: Mapping[str, Pool], trains: bool) -> None:
    """DataError where a user's rows are too few for a split. Nothing is drawn of other families."""
    wanted = _wanted(domains, data, trains)
    _draw({split: {name: _of(own, pools) for name, own in cells.items()} for split, cells in wanted.items()}, 0, pools)


def _wanted(domains: Mapping[str, Domain], data: DataSettings, trains: bool) -> Wanted:
    sizes = {split: getattr(data, split) if trains or split != "train" else 0 for split in SPLITS}
    return {split: {name: _shares(own, sizes[split]) for name, own in domains.items()} for split in SPLITS}


def _of(cells: Mapping[Cell, int], pools: Mapping[str, Pool]) -> dict[Cell, int]:
    """The cells that are a user's rows."""
    return {cell: count for cell, count in cells.items() if cell[0] in pools}


def _draw(wanted: Wanted, seed: int, pools: Mapping[str, Pool]) -> Splits:
    asked = {split: sum((Counter(own) for own in wanted[split].values()), Counter()) for split in SPLITS}
    seen: set[str] = set()
    found: Splits = {}
    for split in SPLITS:
        found[split] = {name: [] for name in wanted[split]}
        for name, cells in wanted[split].items():
            for cell, count in cells.items():
                if not count:  # a user's rows need not have that part then
                    continue
                pool = pools.get(cell[0])
                if pool is None:
                    rng = stream(seed, 0, 0, f"merge.{split}", name, *cell)
                    items = draw_cell(rng, split, cell, count, seen, draws=_DRAWS_PER_ITEM, key=f"data.{split}")
                else:
                    held_out = sum(asked[other][cell] for other in SPLITS if other != "train")
                    sides = (asked["train"][cell], held_out)
                    items = take(pool, split, *cell, count, seed, seen, *sides, f"data.{split}")
                found[split][name] += items
    return found


def _shares(domain: Domain, wanted: int) -> dict[Cell, int]:
    """How many of a split's items are of each cell of a domain; the first cells take the remainder."""
    cells: list[Cell] = []
    for family in map(get_family, domain.families):
        known = family.depths if family.rows else [depth for depth in domain.depths if depth in family.depths]
        cells += [(family.name, depth) for depth in known]
    return {cell: wanted // len(cells) + (place < wanted % len(cells)) for place, cell in enumerate(cells)}


def by_name(splits: Splits) -> dict[str, list[Item]]:
    """Split -> all its items, domain after domain."""
    return {split: [item for items in own.values() for item in items] for split, own in splits.items()}
