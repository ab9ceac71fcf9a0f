"""Holdout files that a suite names: read and checked, and which of their items a seed is asked."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path

from evolora_core.engine.identity import digest
from evolora_core.engine.rng import stream
from evolora_core.errors import ConfigError, DataError
from evolora_core.language.datasets import read_items
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical
from evolora_core.language.holdouts import read_holdout
from evolora_core.language.splits import HOLDOUTS, SPLITS
from evolora_core.searches.adapters.settings.holdouts import HoldoutFile


def read_file(own: HoldoutFile) -> list[Item]:
    """The items that may be asked. ConfigError where a row is faulty, or more are asked for than there are."""
    try:
        items = read_holdout(Path(own.file), own.where or {})
    except DataError as error:
        raise ConfigError(f"evaluation.holdouts: {error}") from None
    if own.items is not None and own.items > len(items):
        raise ConfigError(f"evaluation.holdouts: {own.file}: has {len(items)} items, not {own.items}; ask for fewer")
    return items


def digest_of(items: Sequence[Item]) -> str:
    """Hash of what is asked and what is right."""
    return digest([asdict(item) for item in items])


def known_prompts(datasets: Path) -> set[str]:
    """The canonical prompts of every split in a folder that is looked at before the end."""
    files = [datasets / f"{split}.jsonl" for split in SPLITS if split not in HOLDOUTS]
    return {canonical(item.prompt) for file in files if file.is_file() for item in read_items(file)}


def unseen(items: Sequence[Item], known: Collection[str]) -> list[int]:
    """Places of the items whose canonical prompts are not `known`."""
    return [place for place, item in enumerate(items) if canonical(item.prompt) not in known]


def sample(own: HoldoutFile, items: Sequence[Item], places: Collection[int]) -> list[Item]:
    """As many of the items at `places` as are asked for, in the order of the file.

    The whole file is shuffled, and the first that are at `places` are taken: two seeds that leave out a few items each
    are asked nearly the same ones.
    """
    shuffled = stream(own.seed, 0, 0, "holdouts", own.name).permutation(len(items)).tolist()
    kept = set(places)
    return [items[place] for place in sorted([place for place in shuffled if place in kept][: own.items])]
