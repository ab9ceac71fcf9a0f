"""Weights & Biases: a run of theirs for each run of ours. Nothing leaves this machine unless it is asked to.

In the mode `offline` wandb and the process that it starts open no connection; `wandb sync FOLDER` sends a folder later.
The variable that turns wandb's error reports off counts for that process too. Neither models nor files of a run are
handed over, and of the machine no more than the versions of Python and wandb.
"""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evolora_core.engine.identity import digest
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from evolora_core.tracking.runs import Tracked

LONGEST_ID = 128  # characters of a run's id
PROJECT = "evolora"


def check_installed() -> None:
    """Raise ConfigError unless the extra is there."""
    if find_spec("wandb") is None:
        raise ConfigError(
            "tracking needs the package wandb, which is not installed; "
            "run `pip install -c constraints.txt -e '.[tracking]'`"
        )


def set_wandb_environment(home: Path) -> None:
    """No error reports, and no files of wandb's own outside of `home`, unless the user chose otherwise."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    os.environ.setdefault("WANDB_CACHE_DIR", str(home / "cache"))  # it adds its own name


def write_run(run: Tracked, out: Path, *, project: str = PROJECT, online: bool = False) -> Path:
    """Write a run to `out`/RUN and, if `online`, send it; returns the folder. What was written before is replaced. What
    was sent before is continued, since a run always has the same id.

    ConfigError, one line, for a folder that is not ours, and where wandb cannot do it (no key, no network).
    """
    import wandb

    folder = out / run.run_id
    if folder.exists() and not any(folder.glob("run-*.wandb")):
        raise ConfigError(f"{folder}: exists and is no tracked run; name another folder with --out")
    partial = out / f"{run.run_id}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # what a killed one left
    partial.mkdir(parents=True)
    try:
        own = wandb.init(
            dir=partial,
            project=project,
            group=run.suite,
            id=run.run_id if len(run.run_id) <= LONGEST_ID else digest(run.run_id),
            name=run.run_id,
            config=run.settings,
            mode="online" if online else "offline",
            resume="allow" if online else None,  # offline there is nobody to ask
            allow_val_change=True,
            settings=_quiet(),
        )
        _log(own, run)
        own.finish()
        written = next((partial / "wandb").glob("*run-*"))
        shutil.rmtree(written / "tmp", ignore_errors=True)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(written, folder)
    except wandb.errors.Error as error:
        raise ConfigError(f"{'--online: ' if online else ''}{run.run_id}: wandb: {one_line(error, 300)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def close() -> None:
    """End the process that wandb has started."""
    import wandb

    wandb.teardown()


def _quiet() -> Any:
    """Settings with which wandb records what it is given and nothing else."""
    import wandb

    return wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        host="",
        save_code=False,
        silent=True,
        symlink=False,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )


def _log(own: Any, run: Tracked) -> None:
    """Generations as steps, scores as the summary. What a continued run has is not logged again."""
    own.define_metric("generation")
    own.define_metric("generation/*", step_metric="generation")
    for generation, numbers in run.generations:
        if generation >= own.starting_step:
            told = {f"generation/{name}": value for name, value in numbers.items()}
            own.log({"generation": generation} | told, step=generation)
    own.summary.update(run.scores)
