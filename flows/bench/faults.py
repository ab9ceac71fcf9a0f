"""What a night can do to a suite: kill its processes, fill its disk, hold its store, damage its files, start it twice.

Each fault gets a home of its own. The suite runs, the fault strikes, `evolora retry` is called until it succeeds, and
then every table must hold what the tables of an undisturbed run hold.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evolora_core import rng
from evolora_core.artifacts import write_json
from evolora_core.config import SuiteConfig
from evolora_core.errors import StageError
from evolora_core.run_index import entries, suites
from evolora_core.store import fingerprints, store_path
from evolora_core.store.connection import opened

RETRIES = 3
Row = dict[str, str | float | None]


@dataclass
class Victim:
    """One suite in a home of its own, and the processes that run it."""

    folder: Path
    home: Path
    log: Path
    running: list[subprocess.Popen] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, config: SuiteConfig, home: Path | None = None) -> "Victim":
        """A suite file in `folder`; the home is beside it unless given."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "suite.json", config.model_dump(mode="json"))
        return cls(folder, home or folder / "home", folder / "log.txt")

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start `evolora` with these arguments, `run` of the suite by default."""
        words = arguments or ("run", "suite.json")
        with open(self.log, "a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "flows.cli", *words],
                cwd=self.folder,
                env=os.environ | {"EVOLORA_HOME": str(self.home)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def finish(self) -> int:
        """Wait for what runs, then retry until it succeeds; how often that was needed. Raises StageError."""
        codes = [process.wait() for process in self.running]
        self.running.clear()
        if not any(codes):
            return 0
        for attempt in range(1, RETRIES + 1):
            words = ("retry",) if suites(self.home) else ()  # killed before it could be known
            if self.start(*words).wait() == 0:
                return attempt
        raise StageError(f"{self.log}: {RETRIES} retries did not finish the suite: {self._last_line()}")

    def contents(self) -> dict[str, str]:
        """Fingerprints of all tables."""
        return fingerprints(self.home, str(suites(self.home)[-1]))

    def _last_line(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.startswith("error")), "no error line")


def measure(config: SuiteConfig, kills: int, seed: int, only: str = "") -> list[Row]:
    """Every fault whose name has `only` in it; a row each: how often tried (`other`) and survived (`ours`)."""
    with tempfile.TemporaryDirectory(prefix="evolora-faults-") as folder:
        calm = Victim.make(Path(folder) / "calm", config)
        started = time.monotonic()
        calm.start()
        if calm.finish():
            raise StageError(f"{calm.log}: the undisturbed suite failed; mend that first")
        span, expected = time.monotonic() - started, calm.contents()
        rows = []
        for name, strike, times in _faults(config, kills, span):
            if only not in name:
                continue
            outcomes = []
            for number in range(times):
                draw = rng.stream(seed, 0, number, f"fault.{name}")
                outcomes.append(_try(Path(folder) / f"{name}-{number}".replace(" ", "-"), strike, draw, expected))
                print(f"{name} {number + 1}/{times}: {outcomes[-1] or 'survived'}", file=sys.stderr, flush=True)
            rows.append(_row(name, outcomes))
    return rows


Strike = Callable[[Path, np.random.Generator], Victim]


def _faults(config: SuiteConfig, kills: int, span: float) -> Iterator[tuple[str, Strike, int]]:
    """(name, what happens, how often)."""
    for name, find in (("flow process", _flow), ("worker process", _worker), ("server process", _server)):
        yield f"kill -9 of the {name}", _kill(config, span, find), kills
    yield "same suite started twice", _twice(config), 1
    yield "two suites on one store", _two_suites(config), 1
    yield "store locked for 30 s", _locked(config), 1
    for pattern in ("population.safetensors", "evaluations.parquet", "adapter_model.safetensors"):
        yield f"truncated {pattern}", _truncated(config, pattern), 1
    if os.geteuid() == 0 and sys.platform == "linux":
        yield "disk full", _disk_full(config), 1
        yield "home read-only for a while", _read_only(config, span), 1


def _try(folder: Path, strike: Strike, draw: np.random.Generator, expected: dict[str, str]) -> str:
    """Why the fault was not survived; "" if it was."""
    try:
        victim = strike(folder, draw)
        victim.finish()
        found = victim.contents()
    except Exception as error:
        return " ".join(str(error).split())
    wrong = sorted(table for table, content in expected.items() if found[table] != content)
    left = [f"{entry.run_id}.{entry.stage}" for entry in entries(victim.home, suites(victim.home)[-1])
            if entry.state not in ("done", "cached")]  # fmt: skip
    return " ".join([*(f"{table} differs" for table in wrong), *(f"{stage} is not done" for stage in left)])


def _row(name: str, outcomes: Sequence[str]) -> Row:
    survived = sum(not outcome for outcome in outcomes)
    return {
        "measure": name,
        "ours": survived,
        "other": len(outcomes),
        "ratio": survived / len(outcomes),
        "unit": "survived of tried",
        "note": next(filter(None, outcomes), ""),
    }


def _kill(config: SuiteConfig, span: float, find: Callable[[Victim], list[int]]) -> Strike:
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
        raise StageError("not struck: the suite ended before")

    return strike


def _flow(victim: Victim) -> list[int]:
    return [process.pid for process in victim.running]


def _worker(victim: Victim) -> list[int]:
    return [pid for pid in _children(victim) if "spawn_main" in _command(pid)]


def _server(victim: Victim) -> list[int]:
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


def _twice(config: SuiteConfig) -> Strike:
    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        victim.start()
        victim.start()
        return victim

    return strike


def _two_suites(config: SuiteConfig) -> Strike:
    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        other = Victim.make(folder / "other", config.model_copy(update={"name": "other"}), victim.home)
        other.start()
        time.sleep(1)  # the suite that is asked about is the latest
        victim.start()
        other.finish()
        return victim

    return strike


def _locked(config: SuiteConfig) -> Strike:
    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        process = victim.start()
        while not store_path(victim.home).exists() and process.poll() is None:
            time.sleep(0.1)
        with opened(store_path(victim.home)):
            time.sleep(30)
        return victim

    return strike


def _truncated(config: SuiteConfig, pattern: str) -> Strike:
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


def _disk_full(config: SuiteConfig) -> Strike:
    """A disk that is too small for the suite, until it is made larger."""

    def strike(folder: Path, draw: np.random.Generator) -> Victim:
        victim = Victim.make(folder, config)
        with _disk(victim.home, "24m"):
            victim.start().wait()
            subprocess.run(["mount", "-o", "remount,size=2g", str(victim.home)], check=True)
            victim.finish()
            subprocess.run(["cp", "-a", f"{victim.home}/.", f"{folder}/kept"], check=True)
        victim.home = folder / "kept"
        return victim

    return strike


def _read_only(config: SuiteConfig, span: float) -> Strike:
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
            victim.finish()
            subprocess.run(["cp", "-a", f"{victim.home}/.", f"{folder}/kept"], check=True)
        victim.home = folder / "kept"
        return victim

    return strike


@contextmanager
def _disk(place: Path, size: str) -> Iterator[None]:
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
