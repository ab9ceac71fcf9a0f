"""Commit and resume of long loops: a killed loop goes on from its last whole commit and ends as if nothing had been.

A commit is a folder `checkpoints/g000020`: what the loop needs to go on, after 20 rounds. It is written beside its
name, hashed, and moved into place; the last two are kept. What only grows, the rows of tables, is not written again:
each commit leaves the new ones in a segment `checkpoints/rows/000020`, which stays. The manifest of a commit or segment
names the segment before it, with that one's hash, so that a commit writes and reads no more than one link of the chain,
however long it is. A segment is written before its commit; one that no commit leads to is of a killed loop, and is
dropped.
"""

import logging
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from evolora_core.engine import artifacts
from evolora_core.engine.artifacts import MANIFEST, sha256

log = logging.getLogger(__name__)

KEPT = 2
ROWS = "rows"  # folder of the segments, apart from the commits, which are listed at every commit
Write = Callable[[Path], None]  # writes files into an empty folder


@dataclass(frozen=True)
class Commit:
    """A whole commit: after how many rounds, its folder, and all segments of rows until then, oldest first."""

    number: int
    folder: Path
    segments: list[Path] = field(default_factory=list)


def commit(checkpoints: Path, number: int, write: Write, append: Write | None = None) -> Path | None:
    """Commit what `write` writes after `number` rounds, and, in a segment that stays, what `append` writes.

    Returns the folder of the commit; None if that number was committed before, in which case nothing is written.
    """
    target = checkpoints / f"g{number:06d}"
    if target.exists():
        return None
    before = _commits(checkpoints)
    link = _link(before[-1]) if before else None
    if append:
        segment = segment_of(checkpoints, number)
        _make(segment, append, link)
        link = {"name": segment.name, "sha256": sha256(segment / MANIFEST)}
    _make(target, write, link)
    for old in _commits(checkpoints)[:-KEPT]:
        shutil.rmtree(old)
    return target


def latest(checkpoints: Path) -> Commit | None:
    """The last whole commit, all whose segments are whole too. What is damaged, and segments that do not lead to that
    commit, are removed.
    """
    chains: dict[Path, list[Path]] = {}

    def damage(folder: Path) -> str | None:
        reason = artifacts.damage(folder)
        if reason is None:
            chains[folder], reason = _chain(folder)
        return reason

    found = newest_whole(reversed(_commits(checkpoints)), damage)
    kept = chains[found] if found else []
    for folder in (checkpoints / ROWS).glob("*"):
        if folder not in kept:
            shutil.rmtree(folder)
    return Commit(_number(found), found, kept) if found else None


def segment_of(checkpoints: Path, number: int) -> Path:
    """Folder of the rows that the commit after `number` rounds added."""
    return checkpoints / ROWS / f"{number:06d}"


def newest_whole(folders: Iterable[Path], damage: Callable[[Path], str | None]) -> Path | None:
    """The first of `folders`, which come newest first, about which `damage` says nothing. Those before it are removed
    with a warning.
    """
    for folder in folders:
        reason = damage(folder)
        if reason is None:
            return folder
        log.warning("checkpoint %s: %s; going on from before it", folder.name, reason)
        shutil.rmtree(folder)
    return None


def _commits(checkpoints: Path) -> list[Path]:
    """All commits, oldest first."""
    return sorted((folder for folder in checkpoints.glob("g*") if folder.name[1:].isdigit()), key=_number)


def _number(folder: Path) -> int:
    """Number of rounds after which a commit was made."""
    return int(folder.name[1:])


def _make(folder: Path, write: Write, before: dict[str, str] | None) -> None:
    """Commit a folder of what `write` writes; its manifest names the segment before it."""
    shutil.rmtree(folder.with_name(folder.name + ".partial"), ignore_errors=True)  # a killed loop's
    write(artifacts.partial_folder(folder))
    artifacts.commit(folder, {"before": before})


def _link(folder: Path) -> dict[str, str] | None:
    """Name and hash of the segment before a commit or segment; None: there was none."""
    manifest = artifacts.read_manifest(folder) or {}
    link: dict[str, str] | None = manifest.get("before")
    return link


def _chain(folder: Path) -> tuple[list[Path], str | None]:
    """The segments that lead to a commit, oldest first, and what is wrong with one of them."""
    found: list[Path] = []
    if "before" not in (artifacts.read_manifest(folder) or {}):
        return found, "it is of another version"
    link = _link(folder)
    while link:
        segment = folder.parent / ROWS / link["name"]
        if not segment.is_dir():
            return found, f"{ROWS}/{segment.name} is gone"
        if reason := artifacts.damage(segment):
            return found, f"{ROWS}/{segment.name}: {reason}"
        if sha256(segment / MANIFEST) != link["sha256"]:
            return found, f"{ROWS}/{segment.name} was changed"
        found.insert(0, segment)
        link = _link(segment)
    return found, None
