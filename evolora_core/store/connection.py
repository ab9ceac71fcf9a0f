"""Opening the DuckDB file: wait for the process that holds it, bring its schema up to date, refuse what is newer.

While one process writes, no other can open the file, not even to read, and DuckDB itself does not wait. So
connections live for a statement or two, and everybody waits here with jitter.
"""

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from evolora_core.engine.rng import stream
from evolora_core.errors import Passing, StoreError
from evolora_core.store import schema
from evolora_core.store.said import duckdb_says

log = logging.getLogger("evolora_core.stages")

LOCK_WAIT = 60.0  # seconds
SILENT = 2.0  # of them, before whoever waits says so
# The same settings in every connection: DuckDB refuses a second one in this process whose settings differ.
_Settings = dict[str, str | bool | int | float | list[str]]
_WRITER: _Settings = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
_NOT_WRITTEN = re.compile(r"No space left|File too large|Could not write")
_READER: _Settings = _WRITER | {"enable_external_access": False}


def store_path(home: Path) -> Path:
    """Where the store of an EVOLORA_HOME is."""
    return Path(home) / "evolora.duckdb"


class Locked(StoreError, Passing):
    """Somebody else holds the store."""


class Unwritable(StoreError, Passing):
    """The disk did not take it, or did not give it."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep everybody else out of a store that is about to be replaced; a missing file is made for its lock. A damaged
    one needs none.
    """
    missing, connection = not path.exists(), None
    try:
        connection = _wait_for(path, False, LOCK_WAIT)
        connection.execute("CHECKPOINT")  # nothing of it stays in a log beside the new file
    except (Locked, Unwritable):
        raise
    except (StoreError, duckdb.Error):
        pass  # damaged: nobody else can open it either
    try:
        yield
    except BaseException:
        if missing:
            path.unlink(missing_ok=True)
        raise
    finally:
        if connection:
            connection.close()


@contextmanager
def opened(path: Path, *, read_only: bool = False, wait: float = LOCK_WAIT) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the store at its current schema. Waits up to `wait` seconds for a lock; raises StoreError, also
    for damage that a statement comes upon, and KeyboardInterrupt where a signal ended a query.
    """
    try:
        with _opened(path, read_only, wait) as connection:
            yield connection
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # DuckDB raises this in place of what the signal's handler raised
            raise
        raise KeyboardInterrupt from error
    except duckdb.Error as error:
        if _is_disk(error):
            raise Unwritable(f"{path}: {duckdb_says(error)}; is the disk full?") from error
        if not is_damage(error):
            raise
        raise StoreError(f"{path}: {duckdb_says(error)}; {_mend(path)}") from error


def _is_disk(error: duckdb.Error) -> bool:
    """Whether the disk is at fault. A COMMIT or a CHECKPOINT that it did not take is another class of errors."""
    if isinstance(error, duckdb.IOException | duckdb.FatalException):
        return not is_damage(error)
    return isinstance(error, duckdb.TransactionException) and bool(_NOT_WRITTEN.search(str(error)))


def is_damage(error: duckdb.Error) -> bool:
    """Whether a checksum of the file is wrong. DuckDB has no class of errors for it."""
    return "Corrupt database file" in str(error)


@contextmanager
def kept_open(home: Path) -> Iterator[None]:
    """Keep the store open to read: whoever asks it many questions pays for opening it once (20 ms of the processor).
    Nobody can write to it meanwhile.
    """
    with opened(store_path(home), read_only=True):
        yield


@contextmanager
def _opened(path: Path, read_only: bool, wait: float) -> Iterator[duckdb.DuckDBPyConnection]:
    if read_only:
        if not path.exists():
            raise StoreError(
                f"{path}: no store yet; `evolora run SUITE.yaml` makes one, `evolora store rebuild` restores it"
            )
        with closing(_wait_for(path, True, wait)) as connection:
            if schema.is_current(connection, path):
                yield connection
                return
        with opened(path, wait=wait):
            pass  # an older schema: only a writer can bring it up to date
        with closing(_wait_for(path, True, wait)) as connection:
            yield connection
    else:
        with closing(_wait_for(path, False, wait)) as connection:
            schema.bring_up_to_date(connection, path)
            yield connection


def _wait_for(path: Path, read_only: bool, wait: float) -> duckdb.DuckDBPyConnection:
    """Connect, again and again while somebody else holds the file."""
    start, attempt, told = time.monotonic(), 0, False
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=_READER if read_only else _WRITER)
        except duckdb.Error as error:
            holder = _holder(str(error))
            if holder is None and _NOT_WRITTEN.search(str(error)):
                raise Unwritable(f"{path}: {duckdb_says(error)}; is the disk full?") from error
            if holder is None:
                raise StoreError(f"{path}: cannot be opened ({duckdb_says(error)}); {_mend(path)}") from error
            if (waited := time.monotonic() - start) >= wait:
                raise Locked(f"{path}: held by {holder} for {wait:.0f} s; wait for it or stop it") from error
            if waited >= SILENT and not told:
                log.warning("%s: held by %s; waiting for it, up to %.0f s", path, holder, wait)
                told = True
        attempt += 1
        jitter = stream(os.getpid(), attempt, 0, "store.lock").random()
        time.sleep(min(0.5, 0.02 * 1.5**attempt) * (0.5 + jitter))


def _holder(message: str) -> str | None:
    """Who holds the file, by DuckDB's error message; None if the error is another one."""
    if "different configuration" in message:
        return f"this process (PID {os.getpid()})"
    if "Could not set lock" not in message:  # a path may have "lock" in it
        return None
    found = re.search(r"held in (.*?)\s*\(PID (\d+)\)", message)
    return f"process {found[2]} ({Path(found[1]).name})" if found else "another process"


def _mend(path: Path) -> str:
    if path.exists() and os.access(path, os.W_OK):
        return "`evolora store rebuild` makes it anew"
    return "check that EVOLORA_HOME exists and is writable"
