"""The adapter search from Python: what `evolora chat`, `ask` and `sql` do, as three functions.

    from evolora_core.adapters import answer, load_run, tables

What was run is looked for in EVOLORA_HOME (by default `.evolora/` in the working directory). Every function raises an
EvoloraError whose one line says what is wrong.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evolora_core.engine.home import prepare_home

if TYPE_CHECKING:
    import pandas as pd

    from evolora_core.searches.adapters.evolved import Evolved, Reply

__all__ = ["answer", "load_run", "tables"]

VIEWS = ("paper_table", "accuracy", "comparison", "run_summary", "generation_summary", "discovery", "compute", "splits")


def load_run(run: str, *, routing: str = "", organelle: int | None = None) -> "Evolved":
    """A finished run, such as quickstart.ecology.s0, with its host. `routing` is `learned` (by the prompt), `single` or
    `family`, for which each prompt's family is given; "": by the prompt, where there are several adapters.
    """
    from evolora_core.searches.adapters.evolved import open_run

    return open_run(prepare_home(), run, routing=routing, organelle=organelle, families=True)


def answer(run: "str | Evolved", prompts: Sequence[str], **asked: Any) -> "list[Reply]":
    """What a run, or the name of one, answers: text, who said it, what it cost. `asked` may have `families` (for the
    router of that name, which the name of a run is then opened with), `max_new_tokens`, `temperature` and `seed`.
    """
    routing = "family" if asked.get("families") is not None else ""
    return (load_run(run, routing=routing) if isinstance(run, str) else run).answer(prompts, **asked)


def tables(suite: str) -> "dict[str, pd.DataFrame]":
    """What the store knows of a suite: each of `VIEWS` by its name. `suite` is a name (the latest of that name), an id
    or a file. A table that the suite has no rows for is empty.
    """
    from evolora_core.searches.suite_tables import suite_tables

    return suite_tables(suite, "adapters", VIEWS)
