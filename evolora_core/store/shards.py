"""Shards: a part of a suite that ran somewhere, as a folder of rows; and how shards of one suite become one store.

What merges must have been made alike: by the same code, libraries, host and settings. Times may differ.
"""

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from evolora_core.engine.artifacts import sha256
from evolora_core.engine.identity import digest
from evolora_core.engine.run_index import SuiteId, read_suite, write_suite
from evolora_core.engine.strict import document_hash
from evolora_core.errors import StoreError
from evolora_core.foreign.text import one_line
from evolora_core.store.carried import Run, carry, files, load, read, suite_in
from evolora_core.store.connection import opened, store_path
from evolora_core.store.transaction import transaction

# What evaluations of one run seed share; all else that they say must be alike in all seeds.
OF_A_SEED = frozenset({"dataset", "holdouts", "corpus", "rates", "seeds", "parents", "base"})
ITEMS = ("datasets", "holdouts", "corpus")  # stages that make what a seed is asked, from settings that all seeds share
Key = tuple[str, int, str]  # condition, seed and stage


@dataclass
class Merged:
    """What a merge did: suites, stages that came, and stages that were there already."""

    suites: list[str] = field(default_factory=list)
    stages: int = 0
    known: int = 0


def write_shard(home: Path, suite: str, out: Path, runs: Collection[Run] | None = None) -> list[Run]:
    """Write what the store has of a suite id, or of some of its runs and what they share, into the folder `out`;
    returns the runs. A shard that is there is replaced, once the new one is whole. Raises StoreError if there is
    nothing, or if `out` holds something else.
    """
    if out.exists() and not _may_replace(out):
        raise StoreError(f"{out}: holds something that is not a shard; choose another folder")
    wanted = None if runs is None else {*runs, *_shared(home, suite, runs)}
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        new = Path(work) / "new"
        carry(home, suite, new, shard=True, runs=wanted)
        made = {(row["condition"], row["seed"]) for row in read(new)["stages"].to_pylist()}
        if runs is not None and not made & {*runs}:
            raise StoreError(f"{suite}: the store has no stage of these runs; `evolora status {suite}` lists them")
        if out.exists():
            os.replace(out, Path(work) / "old")
        os.replace(new, out)
    return sorted(made)


def merge(home: Path, folders: Sequence[Path]) -> Merged:
    """Load shards into the store of `home`, all or none, and keep copies there, so that `rebuild` has them too.

    Raises StoreError that names what differs where a shard was not made as what is there, or as another one.
    """
    found = [(Path(folder), read(Path(folder))) for folder in folders]
    merged, copies = Merged(), list[Path]()
    try:
        with opened(store_path(home)) as connection, transaction(connection):
            for folder, tables in found:
                came, known = insert_shard(connection, folder, tables)
                merged.stages, merged.known = merged.stages + came, merged.known + known
            for folder, tables in found:  # before the store has them, or a rebuild could lose what it has
                copies += _keep(home, folder, suite_in(tables)[0])
    except BaseException:
        for copy in copies:  # or a rebuild would load what was refused
            shutil.rmtree(copy, ignore_errors=True)
        raise
    for _, tables in found:
        suite, config = suite_in(tables)
        if read_suite(home, SuiteId.of(suite)) is None:
            write_suite(home, SuiteId.of(suite), config)
        if suite not in merged.suites:
            merged.suites.append(suite)
    return merged


def kept_shards(home: Path) -> list[Path]:
    """The copies of shards that were merged into a home."""
    return sorted(path for path in (home / "shards").glob("*/[!.]*") if path.is_dir())


def insert_shard(
    connection: duckdb.DuckDBPyConnection, folder: Path, tables: dict[str, pa.Table], *, again: bool = False
) -> tuple[int, int]:
    """Load the stages of a shard that an open store lacks; returns how many came, and how many were there. `again`:
    it was merged before, and gives nothing where all its stages were made here since, perhaps by newer code.

    Raises StoreError that names the first difference in identity.
    """
    suite, config = suite_in(tables)
    rows = connection.execute(
        "SELECT condition, seed, stage, manifest FROM data.stages WHERE suite = ? AND condition <> 'suite'", [suite]
    ).fetchall()
    there: dict[Key, dict[str, Any]] = {(c, s, stage): json.loads(text) for c, s, stage, text in rows}
    if SuiteId(str(config["name"]), made_of := document_hash(config)) != SuiteId.of(suite):
        place = folder / "suite.parquet"
        raise StoreError(f"{place}: its settings are not those of {suite}: they are {config['name']}'s, hash {made_of}")
    new = _manifests(folder, tables["stages"])
    known = new.keys() & there.keys()
    if again and len(known) == len(new):
        return 0, len(known)
    _refuse_unlike(folder, there, new)
    load(connection, {name: _without(table, known) for name, table in tables.items()})
    return len(new) - len(known), len(known)


def _manifests(folder: Path, stages: pa.Table) -> dict[Key, dict[str, Any]]:
    """The manifests of a shard's stages. StoreError where one is none."""
    found: dict[Key, dict[str, Any]] = {}
    try:
        for row in stages.to_pylist():
            manifest = json.loads(row["manifest"])
            summary, document = (manifest.get(key) or {} for key in ("summary", "identity_document"))
            parts = [summary, summary.get("comparable", {}), document, document.get("libraries", {})]
            if not all(isinstance(part, dict) for part in [*parts, document.get("host") or {}]):
                raise TypeError("a part of a manifest is no object")
            found[row["condition"], row["seed"], row["stage"]] = manifest
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StoreError(f"{folder / 'stages.parquet'}: damaged ({one_line(error)}); ask for the shard anew") from error
    return found


def _may_replace(out: Path) -> bool:
    """Whether a folder is empty or a shard, and nothing of another kind is in it."""
    if not out.is_dir():
        return False
    names = {file.name for file in out.iterdir()}
    return not names or "suite.parquet" in names <= {f"{name}.parquet" for name in files()}


def _keep(home: Path, folder: Path, suite: str) -> list[Path]:
    """Copy a shard to where `rebuild` finds it, whole or not at all, and return the new copy; none if it is there. A
    copy that was damaged since is replaced.
    """
    name = _digest(folder)
    copy = home / "shards" / suite / name
    if copy.exists() and _digest(copy) == name:
        return []
    copy.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=copy.parent, prefix=".") as work:
        new = Path(work) / name
        shutil.copytree(folder, new, ignore=lambda _, names: [n for n in names if not n.endswith(".parquet")])
        if copy.exists():
            shutil.rmtree(copy)
        os.replace(new, copy)
    return [copy]


def _digest(folder: Path) -> str:
    """The digest of a shard's files: the name of its copy."""
    return digest({file.name: sha256(file) for file in sorted(folder.glob("*.parquet"))})


def _shared(home: Path, suite: str, runs: Collection[Run]) -> list[Run]:
    """What runs need and no condition owns: the data of their seeds, and all that was made with other seeds than the
    suite's (tuning).
    """
    with opened(store_path(home), read_only=True) as connection:
        rows = connection.execute(
            "SELECT DISTINCT t.condition, t.seed, list_contains(s.seeds, t.seed) FROM data.stages AS t "
            "JOIN data.suites AS s USING (suite) WHERE suite = ? AND NOT list_contains(s.conditions, t.condition)",
            [suite],
        ).fetchall()
    wanted = {seed for _, seed in runs}
    return [(condition, seed) for condition, seed, declared in rows if seed in wanted or not declared]


def _refuse_unlike(folder: Path, there: Mapping[Key, dict[str, Any]], new: Mapping[Key, dict[str, Any]]) -> None:
    for key, manifest in new.items():
        if (known := there.get(key)) is None:
            continue
        for part in ("identity_document", "identity", "flops", "summary"):
            if unlike := _difference(*(_untimed(own.get(part)) for own in (known, manifest))):
                raise StoreError(f"{folder}: {_label(key)} is not as in the store: {part}{unlike}")
    made: dict[str, tuple[str, Key, str]] = {}  # of each fact its value, a stage of which it holds, and where that is
    for where, stages in (("there", there), ("here", new)):
        for key, manifest in stages.items():
            for fact, value in _facts(manifest):
                other, stage, place = made.setdefault(fact, (value, key, where))
                if value != other and where == "here":
                    raise StoreError(
                        f"{folder}: {_label(key)} differs in {fact}: {value} here, {other} in {_label(stage)} {place}; "
                        "shards of one suite must be made alike"
                    )


def _facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What must be the same in all stages, each fact by name with its value as text."""
    document = manifest.get("identity_document", {})
    if code := document.get("code"):
        loaded = ", ".join(own.rpartition(".")[2] for own in document.get("also", []))
        name = f"the code of {document.get('entry', manifest.get('stage'))}"
        yield f"{name} with {loaded}" if loaded else name, str(code)
    for name, version in document.get("libraries", {}).items():
        yield f"the library {name}", str(version)
    for name, value in (document.get("host") or {}).items():
        yield f"the host's {name}", json.dumps(value, sort_keys=True)
    if (stage := manifest.get("stage")) in ITEMS:
        yield f"the settings of {stage}", digest(document.get("config"))
    for name, value in manifest.get("summary", {}).get("comparable", {}).items():
        whose = f" with seed {manifest.get('seed')}" if name in OF_A_SEED else ""
        yield f"the {name} of evaluations{whose}", json.dumps(value, sort_keys=True)


def _untimed(part: Any) -> Any:
    """A part of a manifest without what is called by seconds."""
    return {k: v for k, v in part.items() if not k.endswith("seconds")} if isinstance(part, dict) else part


def _difference(there: Any, here: Any, place: str = "") -> str:
    """The first place where two documents differ, `.key.key`, with both values; empty if none does."""
    if isinstance(there, dict) and isinstance(here, dict):
        parts = (_difference(there.get(k), here.get(k), f"{place}.{k}") for k in sorted(there.keys() | here.keys()))
        return next(filter(None, parts), "")
    left, right = (json.dumps(value, sort_keys=True) for value in (there, here))  # as text, so that NaN equals NaN
    return "" if left == right else f"{place}: {left:.60} there, {right:.60} here"


def _label(key: Key) -> str:
    condition, seed, stage = key
    return f"{stage} of {condition} s{seed}"


def _without(table: pa.Table, known: Collection[Key]) -> pa.Table:
    """The table without the rows of these stages; unchanged if its rows do not name stages."""
    if not known or "stage" not in table.column_names:
        return table
    columns = (table[name].to_pylist() for name in ("condition", "seed", "stage"))
    return table.filter(pa.array([key not in known for key in zip(*columns, strict=True)], pa.bool_()))
