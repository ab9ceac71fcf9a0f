"""The index of a suite: which stages it has, where they lie, and how they ended. Beside the artefacts, readable
without a store.

runs/NAME/index/HASH/suite.json                    the resolved suite, written before the first stage
runs/NAME/index/HASH/plan.json                     names of all its stages, in the order in which they are made
runs/NAME/index/HASH/packs.json                    the folder that the latest run of it put its pack into
runs/NAME/index/HASH/CONDITION-sSEED.STAGE.json    one stage
"""

import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from evolora_core.engine.artifacts import read_manifest, write_json
from evolora_core.errors import ConfigError, StageError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import read_text

State = Literal["running", "done", "cached", "failed"]


@dataclass(frozen=True)
class SuiteId:
    """A suite by name and the first 8 hex digits of its configuration's hash."""

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name}-{self.digest}"

    @classmethod
    def of(cls, text: str) -> "SuiteId":
        """The id that `str` wrote."""
        name, _, digest = text.rpartition("-")
        return cls(name, digest)

    def run_id(self, condition: str, seed: int) -> str:
        """Name of one condition with one seed, over all suites."""
        return f"{self}.{condition}.s{seed}"

    def index(self, home: Path) -> Path:
        """The folder of the index."""
        return home / "runs" / self.name / "index" / self.digest


@dataclass(frozen=True)
class Entry:
    """One stage of one run. `folder` is relative to EVOLORA_HOME; times are ISO 8601 in UTC; seconds are those of the
    computation, also when this suite only reused it; `pid` is a process of the machine `node`."""

    suite: str
    run_id: str
    condition: str
    seed: int
    stage: str
    folder: str
    identity: str
    state: State
    reason: str = ""
    seconds: float | None = None
    flops: int | None = None
    started: str | None = None
    finished: str | None = None
    pid: int | None = None
    node: str | None = None

    @property
    def suite_id(self) -> SuiteId:
        """The suite."""
        return SuiteId.of(self.suite)

    @property
    def name(self) -> str:
        """The name of the stage within its suite."""
        return step_name(self.condition, self.seed, self.stage)

    @property
    def file_name(self) -> str:
        """Name of the entry within its index folder."""
        return f"{self.condition}-s{self.seed}.{self.stage}.json"


def step_name(condition: str, seed: int, stage: str) -> str:
    """How a stage is called within its suite, by people too: `ecology.s0.evolve`."""
    return f"{condition}.s{seed}.{stage}"


def parts_of(name: str) -> tuple[str, int, str]:
    """Condition, seed and stage of a name that `step_name` gave."""
    condition, seed, stage = name.split(".")
    return condition, int(seed[1:]), stage


def now() -> str:
    """The time for an entry."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def begin(home: Path, suite: SuiteId, document: dict[str, Any], packs: Path) -> None:
    """Remember a suite and the folder that gets its pack. The folder comes first: a process that finds the suite, as
    `evolora retry` does after a kill, finds the folder too.
    """
    suite.index(home).mkdir(parents=True, exist_ok=True)
    write_packs(home, suite, packs)
    write_suite(home, suite, document)


def write_suite(home: Path, suite: SuiteId, document: dict[str, Any]) -> None:
    """Write the resolved suite."""
    index = suite.index(home)
    index.mkdir(parents=True, exist_ok=True)
    write_json(index / "suite.json", document)


def read_suite(home: Path, suite: SuiteId) -> dict[str, Any] | None:
    """The resolved suite, where it was ever begun. Raises StageError if the file is damaged."""
    result: dict[str, Any] | None = _document(suite.index(home) / "suite.json")
    return result


def write_plan(home: Path, suite: SuiteId, names: Sequence[str]) -> None:
    """Write the names, CONDITION.sSEED.STAGE, of all stages that a suite will have."""
    write_json(suite.index(home) / "plan.json", list(names))


def write_packs(home: Path, suite: SuiteId, folder: Path) -> None:
    """Remember the folder that gets the suite's pack, so that `evolora retry` puts it there too."""
    write_json(suite.index(home) / "packs.json", str(folder.absolute()))


def read_packs(home: Path, suite: SuiteId) -> Path | None:
    """The folder that the latest run of a suite put its pack into; None before its first."""
    folder = _document(suite.index(home) / "packs.json")
    return Path(folder) if folder and isinstance(folder, str) else None


def waiting(home: Path, suite: SuiteId) -> list[str]:
    """Names of the planned stages that were never begun, in the order of the plan."""
    planned = _document(suite.index(home) / "plan.json") or []
    begun = {entry.name for entry in entries(home, suite)}
    return [name for name in planned if name not in begun]


def write_entry(home: Path, suite: SuiteId, entry: Entry) -> None:
    """Write or replace the entry of one stage."""
    index = suite.index(home)
    index.mkdir(parents=True, exist_ok=True)
    write_json(index / entry.file_name, asdict(entry))


def read_entry(home: Path, suite: SuiteId, condition: str, seed: int, stage: str) -> Entry | None:
    """The entry of one stage, if it was ever begun."""
    path = suite.index(home) / f"{condition}-s{seed}.{stage}.json"
    document = _document(path)
    return None if document is None else _entry(path, document)


def forget_entry(home: Path, suite: SuiteId, condition: str, seed: int, stage: str) -> None:
    """Remove the entry of a finished stage, so that it waits again; one that failed keeps its reason."""
    entry = read_entry(home, suite, condition, seed, stage)
    if entry and entry.state in ("done", "cached"):
        (suite.index(home) / entry.file_name).unlink(missing_ok=True)  # another flow may forget it, too


def entries(home: Path, suite: SuiteId) -> Iterator[Entry]:
    """Every entry of a suite in the order of their names. One that was running in a process of this machine that is no
    more has failed."""
    for path in sorted(suite.index(home).glob("*-s*.*.json")):
        if (document := _document(path)) is None:  # forgotten a moment ago
            continue
        entry = _entry(path, document)
        here = entry.node in (None, platform.node())
        if entry.state == "running" and here and entry.pid is not None and not alive(entry.pid, entry.started):
            entry = replace(entry, state="failed", reason="killed: its process is gone; run the suite again to resume")
        yield entry


def suites(home: Path) -> list[SuiteId]:
    """Every suite that was ever begun, the one that was run last at the end: each run writes its suite anew."""
    files = sorted(home.glob("runs/*/index/*/suite.json"), key=lambda file: (file.stat().st_mtime_ns, str(file)))
    return [SuiteId(file.parents[2].name, file.parent.name) for file in files]


def find_suite(home: Path, word: str) -> SuiteId:
    """The suite that a user names by id, or by name (the latest of that name). Raises ConfigError."""
    known = suites(home)
    named = [suite for suite in known if word in (str(suite), suite.name)]
    if not named:
        names = (
            ", ".join(sorted({str(suite) for suite in known})) or "none yet; start one with `evolora run SUITE.yaml`"
        )
        raise ConfigError(
            f"{word}: no such suite in {home}; known: {names} (one that was submitted is known once its flow starts)"
        )
    return named[-1]


def older_with(home: Path, suite: SuiteId, stage: str) -> str:
    """` (an older suite of this name has it: ID)` for the latest other suite of the same name that has made such a
    stage; else an empty string.
    """
    for other in reversed(suites(home)):
        if other.name == suite.name and other != suite and any(is_made(home, it, stage) for it in entries(home, other)):
            return f" (an older suite of this name has it: {other})"
    return ""


def is_made(home: Path, entry: Entry, stage: str = "") -> bool:
    """Whether a stage, such a one if named, is done and its folder still there."""
    right = entry.state in ("done", "cached") and stage in ("", entry.stage)
    return right and read_manifest(home / entry.folder) is not None


def run_named(word: str) -> tuple[str, str, int] | None:
    """Suite, condition and seed of what a user names as SUITE.CONDITION.sSEED; None: it is not named so."""
    found = re.fullmatch(r"([^./]+)\.([^./]+)\.s(\d+)", word, re.ASCII)
    return (found[1], found[2], int(found[3])) if found else None


def find_run(home: Path, word: str, stages_of: Callable[[SuiteId], Sequence[str]]) -> Entry:
    """The finished stage, one of those that `stages_of` its suite, of the run that a user names: SUITE.CONDITION.sSEED,
    where SUITE is an id, or a name (the latest of that name). Raises ConfigError.
    """
    if (named := run_named(word)) is None:
        raise ConfigError(f"{word}: not a run; name one like quickstart.ecology.s0, `evolora status` lists them")
    suite, run = find_suite(home, named[0]), named[1:]
    stages = stages_of(suite)
    mine = [entry for entry in entries(home, suite) if (entry.condition, entry.seed) == run]
    for entry in mine:
        if entry.stage in stages and entry.state in ("done", "cached"):
            return entry
    if not mine:
        if f"{run[0]}.s{run[1]}" in {name.rpartition(".")[0] for name in waiting(home, suite)}:
            raise ConfigError(f"{word}: is not made yet; `evolora retry {suite}` makes what is missing")
        of_name = [other for other in suites(home) if named[0] == other.name]
        older = [other for other in of_name if any((it.condition, it.seed) == run for it in entries(home, other))]
        where = f"`evolora status {suite}` lists them"
        if older:
            where = f"an older suite of this name has it: {older[-1]}.{run[0]}.s{run[1]}"
        raise ConfigError(f"{word}: {suite} has no such run; {where}")
    if not any(entry.stage in stages for entry in mine):
        raise ConfigError(f"{word}: nothing is trained for {run[0]!r}; name a run that trains an adapter")
    if any(entry.state == "running" and entry.stage in stages for entry in mine):
        raise ConfigError(f"{word}: is being trained; `evolora status {suite}` shows how far it is")
    raise ConfigError(f"{word}: its training is not finished; `evolora retry {suite}` goes on with it")


def _document(path: Path) -> Any:
    """The JSON document in a file of the index; None if there is none."""
    try:
        return read_json(read_text(path), constants=True)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StageError(f"{path}: damaged ({error}); remove it and run the suite again") from error


def _entry(path: Path, document: Any) -> Entry:
    try:
        return Entry(**document)
    except TypeError as error:
        raise StageError(f"{path}: not an index entry ({error}); remove it and run the suite again") from error


def alive(pid: int, started: str | None) -> bool:
    """Whether the process that started then still runs; its number may have been given to another since."""
    try:
        born = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    return started is None or born <= datetime.fromisoformat(started).timestamp() + 1  # whole seconds are written
