"""`evolora attention list` and `show`: the mechanisms and frameworks that there are, and their texts."""

from typing import Any

from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.known.registry import KNOWN, get_known


def list_programs() -> list[dict[str, Any]]:
    """A row for each."""
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
    """The program of a mechanism, or the template of a framework. ConfigError names the nearest mechanism."""
    return FRAMEWORKS[name].source if name in FRAMEWORKS else get_known(name).source
