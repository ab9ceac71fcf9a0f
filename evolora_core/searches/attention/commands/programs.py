"""The programs that a user names: files of theirs, and mechanisms that are known; and which of these there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.errors import ConfigError
from evolora_core.foreign.nearest import nearest_or_all
from evolora_core.foreign.text import one_line
from evolora_core.sandbox.run import refusal
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.host.sizes import SIZES, order
from evolora_core.searches.attention.known.registry import KNOWN, get_known
from evolora_core.searches.attention.sources import source_of

_SUFFIX = ".py"


@dataclass(frozen=True)
class Named:
    """A program and the word that names it. trusted: it is of this project."""

    name: str
    source: str
    trusted: bool


def named(word: str) -> Named:
    """The program of a file, or the known one of that name. ConfigError: there is none, it is no text, or it is foreign
    and this machine cannot confine it.
    """
    if word in KNOWN:
        return Named(word, KNOWN[word].source, True)
    path = Path(word)
    if not path.is_file():
        if path.suffix == _SUFFIX or path.name != word or path.exists():
            raise ConfigError(
                f"{one_line(word, 200)}: {'this is no file' if path.exists() else 'there is no such file'}"
            )
        get_known(word)  # names the nearest
    source = source_of(word, word)
    if why := refusal():
        raise ConfigError(f"{one_line(word, 200)}: not run here: {why}")
    return Named(word, source, False)


def named_once(words: Sequence[str]) -> list[Named]:
    """Each of these, in their order; a word that stands twice counts once."""
    return [named(word) for word in dict.fromkeys(words)]


def sizes_named(words: Sequence[str]) -> list[str]:
    """Sizes of the host model from small to large, each once. ConfigError for one that there is not."""
    if not words:
        raise ConfigError(f"--sizes: name one or more of {', '.join(SIZES)}")
    for word in words:
        if word not in SIZES:
            raise ConfigError(f"--sizes {one_line(word, 60)}: there are {', '.join(SIZES)}")
    return sorted({*words}, key=order)


def list_programs() -> list[dict[str, Any]]:
    """A row for each mechanism and framework that there is."""
    mechanisms = [
        {"kind": "mechanism", "name": own.name, "what it is": f"{own.says}; must lose" if own.negative else own.says}
        for own in KNOWN.values()
    ]
    frameworks = [
        {"kind": "framework", "name": own.name, "what it is": f"classes that may change: {', '.join(own.slots)}"}
        for own in FRAMEWORKS.values()
    ]
    return [*mechanisms, *frameworks]


def source_named(name: str) -> str:
    """The program of a mechanism, or the template of a framework. ConfigError names the nearest one."""
    if name in FRAMEWORKS:
        return FRAMEWORKS[name].source
    if name not in KNOWN:
        near = nearest_or_all(name, [*KNOWN, *FRAMEWORKS])
        raise ConfigError(f"{one_line(name, 60)!r} is no mechanism and no framework; {near}")
    return KNOWN[name].source
