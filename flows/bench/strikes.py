"""What is done to a suite. A strike gives back the victim once it has really been struck, else raises NotStruck."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from evolora_core.artifacts import write_atomic
from evolora_core.config import SuiteConfig
from evolora_core.errors import StageError
from evolora_core.store import store_path
from evolora_core.store.connection import opened
from flows.bench.clock import jumping
from flows.bench.victim import Victim

LOCKED_SECONDS = 30


class NotStruck(StageError):
    """The suite was faster than the fault; what happened to it says nothing."""


Strike = Callable[[Path, np.random.Generator], Victim]


def kill(config: SuiteConfig, span: float, find: Callable[[Victim], list[int]]) -> Strike:
    """Start, and at a random moment kill what `find` finds (or the next thing that it finds)."""

    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        process = victim.start()
        moment = time.monotonic() + span * draw.random()
        while process.poll() is None:
            if time.monotonic() >= moment and (found := find(victim)):
                os.kill(int(draw.choice(found)), signal.SIGKILL)
                return victim
            time.sleep(0.1)
        raise NotStruck("the suite ended before")

    return strike


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


def twice(config: SuiteConfig) -> Strike:
    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        victim.start()
        victim.start()
        return victim

    return strike


def two_suites(config: SuiteConfig) -> Strike:
    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        other = Victim.make(folder / "other", config.model_copy(update={"name": "other"}), victim.home)
        other.start()
        time.sleep(1)  # the suite that is asked about is the latest
        victim.start()
        other.finish()
        return victim

    return strike


def locked(config: SuiteConfig) -> Strike:
    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        process = victim.start()
        while not store_path(victim.home).exists() and process.poll() is None:
            time.sleep(0.1)
        with opened(store_path(victim.home)):
            time.sleep(LOCKED_SECONDS)
        if process.poll() is not None:
            raise NotStruck("the suite ended before")
        return victim

    return strike


def truncated(config: SuiteConfig, pattern: str) -> Strike:
    """Run to the end, cut one finished file in half, and run again."""

    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        victim.start()
        victim.finish()
        files = sorted(victim.home.glob(f"runs/**/{pattern}"))
        damaged = files[int(draw.integers(len(files)))]
        os.truncate(damaged, damaged.stat().st_size // 2)
        victim.start("retry")
        return victim

    return strike


def disk_full(config: SuiteConfig) -> Strike:
    """A disk that is too small for the suite, until it is made larger."""

    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        with _disk(victim.home, "24m"):
            victim.start().wait()
            _check_struck(victim, "no space left")
            subprocess.run(["mount", "-o", "remount,size=2g", str(victim.home)], check=True)
            victim.finish()
            subprocess.run(["cp", "-a", f"{victim.home}/.", f"{folder}/kept"], check=True)
        victim.home = folder / "kept"
        return victim

    return strike


def read_only(config: SuiteConfig, span: float) -> Strike:
    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        with _disk(victim.home, "2g"):
            process = victim.start()
            time.sleep(span * (0.3 + 0.4 * draw.random()))
            # A mount that has files open for writing cannot be switched; one laid over it can.
            subprocess.run(["mount", "--bind", str(victim.home), str(victim.home)], check=True)
            subprocess.run(["mount", "-o", "remount,ro,bind", str(victim.home)], check=True)
            process.wait()
            subprocess.run(["umount", str(victim.home)], check=True)
            _check_struck(victim, "read-only")
            victim.finish()
            subprocess.run(["cp", "-a", f"{victim.home}/.", f"{folder}/kept"], check=True)
        victim.home = folder / "kept"
        return victim

    return strike


def sabotaged(config: SuiteConfig, fault: str, code: int) -> Strike:
    """Run once with a fault inside (see sabotage.py), after which the process must have ended with `code`."""

    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config.model_copy(update={"processes": 1}))
        found = victim.start(fault, "suite.json", module="flows.bench.sabotage").wait()
        if found != code:
            raise NotStruck(f"the suite ended with {found}, not {code}")
        return victim

    return strike


def clock_jumps(config: SuiteConfig, span: float) -> Strike:
    """The clock of all processes goes a day forward, and then two back."""

    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        ahead = folder / "seconds-ahead"
        write_atomic(ahead, "0")
        victim.environment = jumping(folder, ahead)
        process = victim.start()
        for days in (1, -1):
            time.sleep(span * (0.2 + 0.2 * draw.random()))
            write_atomic(ahead, str(days * 86400))
        if process.poll() is not None:
            raise NotStruck("the suite ended before")
        return victim

    return strike


def _check_struck(victim: Victim, words: str) -> None:
    if not victim.said(words):
        raise NotStruck(f"{victim.log} does not say {words!r}")


@contextmanager
def _disk(place: Path, size: str) -> Iterator[None]:
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
