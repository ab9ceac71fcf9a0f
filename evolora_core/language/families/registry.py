"""Families by name. A family's module is imported when it is first asked for, and no other is.

Tasks of a user are families too. They are entered by whoever reads the suite or the items that name them, for the
thread at hand: two suites may call different tasks by one name.
"""

from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from importlib import import_module
from types import MappingProxyType

from evolora_core.errors import ConfigError
from evolora_core.foreign.nearest import nearest_or_all
from evolora_core.language.families.base import Family, Grade, Item
from evolora_core.language.families.names import ALIASES, MODULES

# What grades tasks of a user: the module, and what starts a verifier's own process, which no import leads to.
TASKS = ("evolora_core.language.tasks.verifiers", "evolora_core.sandbox.nursery")
_entered: ContextVar[Mapping[str, Family]] = ContextVar("_entered", default=MappingProxyType({}))


def enter(families: Iterable[Family]) -> None:
    """Make tasks of a user known by their names."""
    _entered.set({**_entered.get(), **{family.name: family for family in families}})


def full_name(name: str) -> str:
    """The name that items have, of a name or alias. ConfigError names the nearest one."""
    full = ALIASES.get(name, name)
    own = _entered.get()
    if full not in MODULES and full not in own:
        raise ConfigError(f"unknown family '{name}': {nearest_or_all(name, [*own, *MODULES, *ALIASES])}")
    return full


def modules_of(names: Iterable[str], tasks: Collection[str] = ()) -> list[str]:
    """The modules of families, for the identity of a stage that uses them; `tasks` are names of tasks of a user.
    ConfigError as in `full_name`.
    """
    own = {*names} & {*tasks}
    return sorted({*(MODULES[full_name(name)] for name in {*names} - own), *(TASKS if own else ())})


def get(name: str) -> Family:
    """The family of that name or alias. ConfigError as in `full_name`."""
    full = full_name(name)
    own = _entered.get().get(full)
    family: Family = own or import_module(MODULES[full]).FAMILY
    return family


def grade(item: Item, answer: str) -> Grade:
    """Grade any text as the answer to an item."""
    return get(item.family).grade(item, answer)


def gold(item: Item) -> str:
    """The canonical answer text of an item."""
    return get(item.family).gold(item)
