"""`evolora track`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path, prepare_home
from evolora_core.errors import ConfigError
from flows.cli._app import Json, progress, show

if TYPE_CHECKING:
    from evolora_core.tracking.runs import Tracked


def register(app: App) -> None:
    """Add the command."""
    app.command(track, help_epilogue="Example: `evolora track quickstart`, then `wandb sync` of the folders it names")


def track(
    word: Annotated[
        str, Parameter(name="SUITE_OR_RUN", help="Name, id or file of a suite, or a run such as quickstart.ecology.s0.")
    ],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder to write; by default EVOLORA_HOME/tracking. Each run has a folder in it.")
    ] = None,
    project: Annotated[str, Parameter(help="Project of Weights & Biases.")] = "evolora",
    online: Annotated[bool, Parameter(help="Send the runs too; without it nothing leaves this machine.")] = False,
    json: Json = False,
) -> None:
    """Write what the store knows of runs, finished or not, for Weights & Biases: settings, a row for each generation,
    accuracies with intervals. No models. The same again replaces what was written. Needs the extra `tracking`.
    """
    from evolora_core.tracking.wandb_files import check_installed, close, set_wandb_environment, write_run

    check_installed()
    runs = chosen(home_path(), word)
    home = prepare_home()
    set_wandb_environment(home)
    folders = []
    try:
        with progress("track") as report:
            for run in runs:
                folders.append(write_run(run, out or home / "tracking", project=project, online=online))
                report(len(folders), len(runs), run.run_id)
    finally:
        close()
    rows = zip(runs, folders, strict=True)
    show([{"run": run.run_id, "generations": len(run.generations), "folder": str(path)} for run, path in rows], json)


def chosen(home: Path, word: str) -> "list[Tracked]":
    """What the store knows of the runs that a user names. ConfigError or StoreError where there are none."""
    from evolora_core.engine.run_index import read_suite
    from evolora_core.searches.registry import find_suite, search_of
    from evolora_core.tracking.runs import tracked_runs

    name, *rest = [word] if word.endswith((".yaml", ".yml")) else word.split(".", 1)
    suite = find_suite(home, name)
    runs = tracked_runs(home, str(suite), search_of(read_suite(home, suite) or {}).generations)
    wanted = [run for run in runs if not rest or run.run_id == f"{suite}.{rest[0]}"]
    if not wanted:
        raise ConfigError(f"{word}: the store knows no such run; `evolora status {suite}` lists them")
    return wanted
