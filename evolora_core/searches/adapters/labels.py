"""The gold answers that an arm sees: how many, and how many of them wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from evolora_core.engine import rng
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import gold
from evolora_core.searches.adapters.routing.shots import Solved
from evolora_core.searches.adapters.settings.sft import SftSettings


class Labels(Protocol):
    """How many gold answers of each family are seen (None: all), and which share of them is another item's."""

    @property
    def labels(self) -> int | None: ...
    @property
    def label_error(self) -> float: ...


@dataclass(frozen=True)
class Given:
    """So many gold answers of each family, all of them true."""

    labels: int | None
    label_error: float = 0.0


def labelled(items: Sequence[Item], config: Labels, seed: int) -> list[Item]:
    """The items with gold answers: `config.labels` of each family, drawn over its depths in turn, all without; a share
    `config.label_error` of them has the answer of another item of the same family and depth, and a different one.
    """
    draw = rng.stream(seed, 0, 0, "labels")
    cells: dict[tuple[str, str], list[Item]] = {}
    for number in draw.permutation(len(items)):
        cells.setdefault((items[number].family, items[number].depth), []).append(items[number])
    families: dict[str, list[tuple[int, Item]]] = {}
    for (family, _), members in sorted(cells.items()):
        wrong = draw.random(len(members)) < config.label_error
        given = [_mislabelled(members, i) if wrong[i] else item for i, item in enumerate(members)]
        families.setdefault(family, []).extend(enumerate(given))
    chosen = [sorted(members, key=lambda entry: entry[0])[: config.labels] for members in families.values()]
    return [item for members in chosen for _, item in members]


def solved(items: Sequence[Item]) -> list[Solved]:
    """Items with their gold answers."""
    return [Solved(item.family, item.prompt, gold(item)) for item in items]


def _mislabelled(members: Sequence[Item], number: int) -> Item:
    """The item with the nearest earlier target other than its own; unchanged if all items of its cell share one."""
    item = members[number]
    before = (members[number - distance] for distance in range(1, len(members)))
    return next((replace(item, target=other.target) for other in before if other.target != item.target), item)


def parts(items: Sequence[Item], config: SftSettings, arrivals: Sequence[str] = ()) -> dict[str, list[Item]]:
    """The items of each training run: one run on everything, or one for each family where each has its own adapter, or
    where the families come one after another; then in their order.
    """
    if not config.specialists and not arrivals:
        return {"all": list(items)}
    families = arrivals or sorted({item.family for item in items})
    return {family: [item for item in items if item.family == family] for family in families}
