"""What is done to a suite: plain functions that start the victim and hurt it, or raise NotStruck if it was faster."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from evolora_core.engine.artifacts import write_atomic
from evolora_core.errors import StageError
from evolora_core.store import store_path
from evolora_core.store.connection import opened
from flows.bench.clock import jumping
from flows.bench.victim import Victim

LOCKED_SECONDS = 30


class NotStruck(StageError):
    """The suite was faster than the fault; what happened to it says nothing."""


Strike = Callable[[Victim, np.random.Generator], None]


def kill(victim: Victim, draw: np.random.Generator, *, span: float, find: Callable[[Victim], list[int]]) -> None:
    """At a random moment of the `span` seconds that it takes, kill what `find` finds (or the next that it finds)."""
    victim.environment = {"EVOLORA_COMMIT_SECONDS": "0"}  # or no stage of a little suite would go on from a commit
    process = victim.start()
    moment = time.monotonic() + span * draw.random()
    while process.poll() is None:
        if time.monotonic() >= moment and (found := find(victim)):
            return os.kill(int(draw.choice(found)), signal.SIGKILL)
        time.sleep(0.1)
    raise NotStruck("the suite ended before")


def flow_process(victim: Victim) -> list[int]:
    return [process.pid for process in victim.running]


def worker_process(victim: Victim) -> list[int]:
    return [pid for pid in _children(victim) if "spawn_main" in _command(pid)]


def server_process(victim: Victim) -> list[int]:
    return [pid for pid in _children(victim) if "flows._server" in _command(pid)]


def _children(victim: Victim) -> list[int]:
    """Direct children of the victim's processes."""
    parents = {process.pid for process in victim.running}
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) in parents and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def twice(victim: Victim, draw: np.random.Generator) -> None:
    victim.start()
    victim.start()


def two_suites(victim: Victim, draw: np.random.Generator) -> None:
    """Another one runs in the same home; the one that is asked about is the latest."""
    other = Victim.make(victim.folder / "other", victim.config.model_copy(update={"name": "other"}), victim.home)
    other.start()
    time.sleep(1)
    victim.start()
    other.finish()


def locked(victim: Victim, draw: np.random.Generator) -> None:
    """Another process holds the store for a while."""
    process = victim.start()
    while not store_path(victim.home).exists() and process.poll() is None:
        time.sleep(0.1)
    with opened(store_path(victim.home)):
        time.sleep(LOCKED_SECONDS)
    _check_running(process)


def truncated(victim: Victim, draw: np.random.Generator, *, pattern: str) -> None:
    """Run to the end, cut one finished file in half, and run again."""
    victim.start()
    victim.finish()
    files = sorted(victim.home.glob(f"runs/**/{pattern}"))
    damaged = files[int(draw.integers(len(files)))]
    os.truncate(damaged, damaged.stat().st_size // 2)
    victim.start("retry")


def disk_full(victim: Victim, draw: np.random.Generator) -> None:
    """A disk that is too small for the suite, until it is made larger."""
    with _disk(victim, "24m"):
        victim.start().wait()
        _check_said(victim, "no space left")
        subprocess.run(["mount", "-o", "remount,size=2g", str(victim.home)], check=True)
        victim.finish()


def read_only(victim: Victim, draw: np.random.Generator, *, span: float) -> None:
    """In the middle of it the home cannot be written any more, until the suite has failed."""
    with _disk(victim, "2g"):
        process = victim.start()
        time.sleep(span * (0.3 + 0.4 * draw.random()))
        # A mount that has files open for writing cannot be switched; one laid over it can.
        subprocess.run(["mount", "--bind", str(victim.home), str(victim.home)], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", str(victim.home)], check=True)
            process.wait()
        finally:
            subprocess.run(["umount", "-l", str(victim.home)], check=True)
        _check_said(victim, "read-only")
        victim.finish()


def sabotaged(victim: Victim, draw: np.random.Generator, *, fault: str, code: int) -> None:
    """Run once with a fault inside (see sabotage.py), after which the process must have ended with `code`."""
    found = victim.start(fault, str(victim.suite), module="flows.bench.sabotage").wait()
    if found != code:
        raise NotStruck(f"the suite ended with {found}, not {code}")


def clock_jumps(victim: Victim, draw: np.random.Generator, *, span: float) -> None:
    """The clock of all processes goes a day forward, and then two back."""
    ahead = victim.folder / "seconds-ahead"
    write_atomic(ahead, "0")
    victim.environment = jumping(victim.folder, ahead)
    process = victim.start()
    for days in (1, -1):
        time.sleep(span * (0.2 + 0.2 * draw.random()))
        write_atomic(ahead, str(days * 86400))
    _check_running(process)


def _check_running(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise NotStruck("the suite ended before")


def _check_said(victim: Victim, words: str) -> None:
    if not victim.said(words):
        raise NotStruck(f"{victim.log} does not say {words!r}")


@contextmanager
def _disk(victim: Victim, size: str) -> Iterator[None]:
    """The victim's home on a disk of its own; what lies there in the end is kept as its home."""
    disk, kept = victim.home, victim.folder / "kept"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], check=True)
    try:
        yield
        subprocess.run(["cp", "-a", str(disk), str(kept)], check=True)
        victim.home = kept
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
