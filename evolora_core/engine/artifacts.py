"""Artefacts on disk: a folder is whole or it is not there.

A stage works in `NAME.partial`, which outlives a kill, so that long stages can resume. `commit` writes the manifest,
which hashes every file, last, and moves the folder to its name. Knows nothing of what the files mean.
"""

import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from evolora_core.engine.progress import WAITS
from evolora_core.errors import ConfigError, StageError

log = logging.getLogger("evolora_core.stages")

MANIFEST = "manifest.json"
NO_MANIFEST = "it has no manifest"
COMMIT_SECONDS = 60.0


def commit_seconds() -> float:
    """Seconds after which a long stage commits at its next step or generation: EVOLORA_COMMIT_SECONDS, else 60."""
    given = os.environ.get("EVOLORA_COMMIT_SECONDS", COMMIT_SECONDS)
    try:
        seconds = float(given)
        if not 0 <= seconds <= 1e6:  # NaN is no number either
            raise ValueError
        return seconds
    except ValueError:
        raise ConfigError(f"EVOLORA_COMMIT_SECONDS: {given!r} is not a number of seconds") from None


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomic(path: Path, text: str) -> None:
    """Write a whole text file or none: into a temporary file beside it, then by rename."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask, as any other file
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # or a power cut may leave the new name with nothing in it
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_json(path: Path, document: Any) -> None:
    """Write JSON atomically, readable and in a fixed order."""
    write_atomic(path, json.dumps(document, indent=1, sort_keys=True) + "\n")


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Hold the lock of an artefact while it is made; say so if another process has it first."""
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        log.log(WAITS, "another process makes this stage; waiting for it")
        held = lock.acquire()
    with held:
        yield


def partial_folder(folder: Path) -> Path:
    """Where the artefact is made; what a killed process left there is still in it."""
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    return partial


def forget_partial(folder: Path) -> None:
    """Remove what a killed process left of an artefact that stands by now."""
    shutil.rmtree(folder.with_name(folder.name + ".partial"), ignore_errors=True)


def commit(folder: Path, manifest: dict[str, Any], scratch: Collection[str] = ()) -> dict[str, Any]:
    """Turn `folder`.partial into `folder`, without folders in it of the names `scratch`, which go last; returns the
    manifest with the hashes of its files. Replaces a damaged `folder`. Where the disk has no room for the manifest, all
    stays.
    """
    partial = partial_folder(folder)
    left_out = [path for name in scratch for path in partial.rglob(name) if path.is_dir()]
    found = [path for path in sorted(partial.rglob("*")) if path.is_file() and not {*path.parents} & {*left_out}]
    files = {path.relative_to(partial).as_posix(): path for path in found}
    files.pop(MANIFEST, None)
    whole = manifest | {"files": {name: sha256(path) for name, path in files.items()}}
    write_json(partial / MANIFEST, whole)
    for path in files.values():
        shutil.copymode(partial / MANIFEST, path)  # safetensors writes for its owner alone
    if folder.exists():
        shutil.rmtree(folder)
    os.replace(partial, folder)
    for path in sorted(left_out, reverse=True):  # those within others first
        shutil.rmtree(folder / path.relative_to(partial))
    return whole


def adopt(folder: Path, others: Iterable[Path]) -> bool:
    """Copy the first intact artefact among `others` to `folder`, in place of what is there. False if none is intact."""
    for other in others:
        if other == folder or damage(other) is not None:
            continue
        partial = folder.with_name(folder.name + ".adopted")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(other, partial)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(partial, folder)
        return True
    return False


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a committed artefact, or None if there is none that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest if isinstance(manifest["files"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a committed artefact. StageError where there is none that can be read."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise _damaged(folder, NO_MANIFEST)
    return manifest


def damage(folder: Path) -> str | None:
    """What is wrong with an artefact, or None if its manifest stands and every file is as hashed."""
    manifest = read_manifest(folder)
    if manifest is None:
        return NO_MANIFEST
    for name, digest in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is gone"
        if sha256(path) != digest:
            return f"{name} was changed"
    return None


def check(folder: Path) -> None:
    """Raise StageError unless the artefact is whole."""
    if reason := damage(folder):
        raise _damaged(folder, reason)


def _damaged(folder: Path, reason: str) -> StageError:
    return StageError(f"{folder}: {reason}; run the suite again, which makes only what is missing")
