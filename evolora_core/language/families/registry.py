"""Families by name. A family's module is imported when it is first asked for, and no other is."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module

from evolora_core.errors import ConfigError
from evolora_core.language.families.base import Family, Grade, Item
from evolora_core.language.families.names import ALIASES, MODULES


def full_name(name: str) -> str:
    """The name that items have, of a name or alias. ConfigError names the nearest one."""
    full = ALIASES.get(name, name)
    if full not in MODULES:
        near = get_close_matches(name, [*MODULES, *ALIASES], n=1, cutoff=0.5)
        mend = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(MODULES)}"
        raise ConfigError(f"unknown family '{name}': {mend}")
    return full


def modules_of(names: Iterable[str]) -> list[str]:
    """The modules of families, for the identity of a stage that uses them. ConfigError as in `full_name`."""
    return sorted({MODULES[full_name(name)] for name in names})


def get(name: str) -> Family:
    """The family of that name or alias. ConfigError as in `full_name`."""
    family: Family = import_module(MODULES[full_name(name)]).FAMILY
    return family


def grade(item: Item, answer: str) -> Grade:
    """Grade any text as the answer to an item."""
    return get(item.family).grade(item, answer)


def gold(item: Item) -> str:
    """The canonical answer text of an item."""
    return get(item.family).gold(item)
