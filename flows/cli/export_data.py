"""`evolora export-data`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path
from evolora_core.errors import ConfigError
from flows.cli._app import AnyId


def register(app: App) -> None:
    """Add the command."""
    app.command(
        export_data, name="export-data", help_epilogue="Example: `evolora export-data quickstart --out my-data`"
    )


def export_data(
    suite: Annotated[str, Parameter(help="A suite that was run: its name, its id or its file.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder to write: a new or an empty one.")],
    seed: Annotated[int | None, Parameter(help="Run seed; by default the suite's first."), AnyId] = None,
) -> None:
    """Write the splits of a suite as a data set that `datasets.load_dataset` reads: a file for each split, with prompt,
    right answer, family, depth and the item's name in the store.
    """
    from evolora_core.searches.data_export import write_splits

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out}: exists and is not an empty folder; name another")
    sizes = write_splits(home_path(), suite, seed, out)
    which = "the first seed" if seed is None else f"seed {seed}"
    print(f"{out}: {which}: {', '.join(f'{split} {count}' for split, count in sizes.items())}")
