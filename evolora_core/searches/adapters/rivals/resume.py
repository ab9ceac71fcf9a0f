"""What a killed Trainer goes on from: checkpoints of this very run, with the hashes of all that they need."""

import json
import shutil
from pathlib import Path
from typing import Any

from evolora_core.engine.artifacts import sha256
from evolora_core.engine.commits import newest_whole
from evolora_core.engine.meter import Meter
from evolora_core.searches.adapters.rivals.checkpoints import tidy_adapter

MARKER = "evolora.json"  # written last into a Trainer checkpoint: without it the checkpoint is incomplete


def adapter_folder(work: Path, step: int) -> Path:
    """Where the adapter of a step is kept, to be chosen from at the end."""
    return work / f"adapter-{step}"


def keep_adapter(trainer: Any, work: Path, step: int) -> None:
    """Save the adapter as it is now; its folder appears only when complete."""
    folder = adapter_folder(work, step)
    draft = work / f".{folder.name}"  # no name that _hashes looks at
    shutil.rmtree(draft, ignore_errors=True)
    trainer.save_model(str(draft))
    tidy_adapter(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def train(trainer: Any, work: Path, run: str, meter: Meter) -> None:
    """Train, or go on from the newest checkpoint of `run`, its compute put on the meter. The adapter that training
    starts from is kept as that of step 0.
    """
    checkpoint = last_checkpoint(work, run, meter)
    if not adapter_folder(work, 0).exists():
        keep_adapter(trainer, work, 0)
    trainer.train(resume_from_checkpoint=checkpoint)


def mark(work: Path, step: int, run: str, meter: Meter) -> None:
    """Declare the Trainer's checkpoint of a step complete; `run` says whose it is."""
    checkpoint = work / f"checkpoint-{step}"
    marker = {"run": run, "meter": meter.state(), "files": _hashes(work, checkpoint)}
    (checkpoint / MARKER).write_text(json.dumps(marker), encoding="utf-8")


def last_checkpoint(work: Path, run: str, meter: Meter) -> str | None:
    """The newest whole checkpoint of this run, its compute put on the meter; newer ones are deleted, and without any
    whole one the kept adapters too.
    """
    found = sorted(work.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    whole = newest_whole(found, lambda checkpoint: _damage(work, checkpoint, run))
    if whole is None:
        for path in work.glob("adapter-*"):  # of another run, or without a checkpoint to go on from
            shutil.rmtree(path)
        return None
    marker = _marker(whole)
    assert marker
    meter.merge(Meter.from_state(marker["meter"]))
    return str(whole)


def _damage(work: Path, checkpoint: Path, run: str) -> str | None:
    """What is wrong with a checkpoint, or None if it is this run's and all that it needs is as hashed."""
    marker = _marker(checkpoint)
    if marker is None:
        return "it is incomplete"
    if marker["run"] != run:
        return "it is of another run"
    now = _hashes(work, checkpoint)
    damaged = [name for name, digest in marker["files"].items() if now.get(name) != digest]
    return f"{damaged[0]} is damaged" if damaged else None


def _marker(checkpoint: Path) -> dict[str, Any] | None:
    try:
        result: dict[str, Any] | None = json.loads((checkpoint / MARKER).read_text(encoding="utf-8"))
        return result
    except (OSError, ValueError):
        return None


def _hashes(work: Path, checkpoint: Path) -> dict[str, str]:
    """SHA-256 of every file that going on from a checkpoint needs: its own, and the adapters kept until then."""
    folders = [checkpoint, *work.glob("adapter-*")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.name != MARKER]
    return {path.relative_to(work).as_posix(): sha256(path) for path in sorted(paths)}
