"""The four splits of a merge suite: equal numbers of each domain, no prompt twice, nothing reserved in `train`."""

from collections.abc import Mapping, Sequence

from evolora_core.engine.rng import stream
from evolora_core.errors import DataError
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical, reserved
from evolora_core.language.families.registry import get as get_family
from evolora_core.searches.merging.settings import SPLITS, DataSettings, Domain

_DRAWS_PER_ITEM = 400  # a tenth of the prompts is reserved, and a small cell repeats itself
Splits = dict[str, dict[str, list[Item]]]  # split -> domain -> items


def draw_splits(domains: Mapping[str, Domain], data: DataSettings, seed: int) -> Splits:
    """The items of each split by domain. The families and depths of a domain take turns.

    `train` has none of the prompts that are reserved for evaluation, the other splits have only those: what a base was
    pretrained on is in none of them. DataError where a cell has too few items.
    """
    seen: set[str] = set()
    return {
        split: {name: _draw(split, name, domain, getattr(data, split), seed, seen) for name, domain in domains.items()}
        for split in SPLITS
    }


def cells(domain: Domain) -> list[tuple[str, str]]:
    """The (family, depth) cells of a domain."""
    families = [get_family(name) for name in domain.families]
    return [(family.name, depth) for family in families for depth in domain.depths if depth in family.depths]


def by_name(splits: Splits) -> dict[str, list[Item]]:
    """Split -> all its items, domain after domain."""
    return {split: [item for items in own.values() for item in items] for split, own in splits.items()}


def _draw(split: str, name: str, domain: Domain, wanted: int, seed: int, seen: set[str]) -> list[Item]:
    found: list[Item] = []
    known = cells(domain)
    for place, (family_name, depth) in enumerate(known):
        family = get_family(family_name)
        share = wanted // len(known) + (place < wanted % len(known))
        rng = stream(seed, 0, 0, f"merge.{split}", name, family_name, depth)
        drawn = 0
        for _ in range(1000 + _DRAWS_PER_ITEM * share):
            if drawn == share:
                break
            item = family.make(rng, depth)
            prompt = canonical(item.prompt)
            if prompt not in seen and reserved(prompt) == (split != "train"):
                seen.add(prompt)
                found.append(item)
                drawn += 1
        if drawn < share:
            raise DataError(
                f"{split}: cell {family_name}:{depth} has only {drawn} of {share} items; lower data.{split}"
            )
    return found


def domain_numbers(items: Mapping[str, Sequence[Item]]) -> list[int]:
    """For items laid domain after domain, the number of each one's domain."""
    return [number for number, own in enumerate(items.values()) for _ in own]
