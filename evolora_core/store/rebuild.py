"""Make the store anew from the run folders and the shards that were merged: the recovery, and the migration of last
resort.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from evolora_core.errors import StageError, StoreError
from evolora_core.store.benchmarks import insert_benchmark
from evolora_core.store.carried import read
from evolora_core.store.connection import held, opened, store_path
from evolora_core.store.record import write
from evolora_core.store.shards import insert_shard, kept_shards
from evolora_core.store.slices import Slice, finished_slices, read_artefact
from evolora_core.store.transaction import transaction


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild found. `rows` are those of the recorded stages; `merged` counts stages that came from shards.
    `left_out`: stages whose folder is missing or damaged, each with the reason; where there are any, `before` is the
    store that was replaced, which may have their rows.
    """

    recorded: list[Slice]
    rows: int
    merged: int
    left_out: list[tuple[Slice, str]]
    before: Path | None = None


def rebuild(home: Path) -> Rebuilt:
    """Write a new store from the index and put it in the old one's place by rename; nobody can write meanwhile. Where
    something is left out, the old one is kept beside it.

    Raises StoreError if somebody holds the store; a damaged or newer one is replaced all the same.
    """
    path = store_path(home)
    there = path.exists()  # else a file that is made for its lock
    new = path.with_name("evolora.duckdb.rebuild")
    path.parent.mkdir(parents=True, exist_ok=True)
    recorded, left_out = list[Slice](), list[tuple[Slice, str]]()
    with held(path):
        for stale in (new, _log(new)):
            stale.unlink(missing_ok=True)
        rows = merged = 0
        with opened(new) as connection:
            for part in finished_slices(home):
                try:
                    rows += sum(write(connection, read_artefact(home, part)).values())
                except StageError as error:
                    left_out.append((part, str(error)))
                else:
                    recorded.append(part)
            for folder in kept_shards(home):
                try:
                    with transaction(connection):
                        merged += insert_shard(connection, folder, read(folder), again=True)[0]
                except StoreError as error:
                    suite = folder.parent.name
                    why = (
                        f"{error}; remove {folder}, then merge a shard that was made as the rest, or make its stages "
                        f"here by `evolora retry {suite}`"
                    )
                    left_out.append((Slice(suite, suite, "", 0, f"shard {folder.name}", folder), why))
            for file in sorted((home / "bench").glob("*.json")):
                try:
                    insert_benchmark(connection, file)
                except StoreError as error:
                    left_out.append((Slice("bench", "bench", "", 0, file.name, file), str(error)))
            connection.execute("CHECKPOINT")  # the rename takes the file alone; a full disk leaves rows in its log
        before = _free(path) if left_out and there else None
        if before:
            os.replace(path, before)
        # The log of a damaged store must not be replayed on the new one.
        if before and _log(path).exists():
            os.replace(_log(path), _log(before))
        _log(path).unlink(missing_ok=True)
        os.replace(new, path)
    return Rebuilt(recorded, rows, merged, left_out, before)


def _free(path: Path) -> Path:
    """Where a store can be kept aside: `.before`, `.before-2`, … Another one may have what this one lacks."""
    number = 1
    while True:
        kept = path.with_name(f"{path.name}.before" + (f"-{number}" if number > 1 else ""))
        if not kept.exists() and not _log(kept).exists():
            return kept
        number += 1


def _log(path: Path) -> Path:
    """DuckDB's write-ahead log of a file."""
    return path.with_name(path.name + ".wal")
