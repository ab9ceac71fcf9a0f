"""Programs as modules: their text is trusted here, since all of them are ours."""

from typing import Any

from evolora_core.searches.attention.known.registry import KNOWN


def loaded(source: str, name: str = "Attention") -> Any:
    """What a program calls `name`, its class by default."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program.py", "exec"), names)
    return names[name]


def known(name: str) -> Any:
    """The class of a known mechanism."""
    return loaded(KNOWN[name].source)
