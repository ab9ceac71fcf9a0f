"""Slices: the part of the store that one finished stage of one run owns, and the files that it is loaded from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.engine import run_index
from evolora_core.engine.artifacts import MANIFEST, read_manifest, sha256
from evolora_core.errors import StageError
from evolora_core.store import schema

_AGAIN = "run the suite again, which makes only what is missing"


@dataclass(frozen=True)
class Slice:
    """One stage of one run of a suite, and its folder (absolute, or relative to EVOLORA_HOME)."""

    suite: str
    run_id: str
    condition: str
    seed: int
    stage: str
    folder: Path


@dataclass(frozen=True)
class Artefact:
    """A finished stage, checked and ready to load."""

    part: Slice
    folder: Path  # relative to EVOLORA_HOME where it lies below it
    manifest: dict[str, Any]
    tables: dict[str, Path]  # Parquet file of each table
    config: dict[str, Any] | None  # the resolved suite, where the index has it


def finished_slices(home: Path) -> Iterator[Slice]:
    """Every finished stage of every suite in the index."""
    for suite in run_index.suites(home):
        for e in run_index.entries(home, suite):
            if e.state in ("done", "cached"):
                yield Slice(e.suite, e.run_id, e.condition, e.seed, e.stage, Path(e.folder))


def read_artefact(home: Path, part: Slice) -> Artefact:
    """Find and check the tables of a stage: the Parquet files at the root of its folder.

    Raises StageError if one is missing, damaged or no table of the store.
    """
    home = Path(home).absolute()
    folder = home / part.folder
    manifest = read_manifest(folder)
    if manifest is None:
        raise StageError(f"{folder / MANIFEST}: missing or damaged, so the stage is not finished; {_AGAIN}")
    known = schema.tables()
    tables = {}
    for name, digest in sorted(manifest["files"].items()):
        file = folder / name
        if file.suffix != ".parquet" or file.parent != folder:
            continue
        if file.stem not in known:
            raise StageError(f"{file}: the store has no table `{file.stem}`; tables: {', '.join(known)}")
        if not file.is_file():
            raise StageError(f"{file}: named in the manifest and gone; {_AGAIN}")
        if sha256(file) != digest:
            raise StageError(f"{file}: is not the file of its manifest; {_AGAIN}")
        tables[file.stem] = file
    relative = folder.relative_to(home) if folder.is_relative_to(home) else folder
    return Artefact(part, relative, manifest, tables, _config(home, part.suite))


def _config(home: Path, suite: str) -> dict[str, Any] | None:
    """The resolved configuration of a suite id, if the index has it."""
    return run_index.read_suite(home, run_index.SuiteId.of(suite))
