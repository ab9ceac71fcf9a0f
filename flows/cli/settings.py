"""`evolora settings`."""

import shutil
import textwrap
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.errors import ConfigError
from flows.cli._app import Json, show


def register(app: App) -> None:
    """Add the command."""
    app.command(settings, help_epilogue="Example: `evolora settings ecology.contest`")


def settings(
    key: Annotated[str, Parameter(help="A key or section, such as ecology.contest; by default all.")] = "",
    /,
    *,
    search: Annotated[str, Parameter(help="Kind of suite: adapters, merging or attention.")] = "adapters",
    json: Json = False,
) -> None:
    """Say what the keys of a suite file mean, what they take and their defaults. All are in docs/settings.md, too."""
    from dataclasses import asdict

    from evolora_core.engine.described import describe
    from evolora_core.foreign.nearest import nearest
    from evolora_core.searches.registry import get_search

    known = describe(get_search(search).experiment)
    found = [own for own in known if not key or own.key == key or own.key.startswith((f"{key}.", f"{key}["))]
    if not found:
        last = {own.key.rpartition(".")[2]: own.key for own in reversed(known)}
        near = nearest(key, [own.key for own in known]) or last.get(nearest(key.rpartition(".")[2], last))
        mend = f"did you mean {near!r}?" if near else "`evolora settings` shows all"
        raise ConfigError(f"{key[:60]}: suites of {search} have no such key; {mend}")
    if json:
        show([asdict(own) for own in found], True)
        return
    width = max(20, min(110, shutil.get_terminal_size((114, 0)).columns - 4))
    for own in found:
        default = own.default if own.default in ("", "required") else f"default {own.default}"
        facts = "; ".join(filter(None, [own.values, default]))
        print(f"{own.key}  {facts}".rstrip())
        print(textwrap.indent(textwrap.fill(own.description, width), "    "))
