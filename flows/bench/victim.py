"""A suite in a home of its own, run by real commands, that something is done to."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from evolora_core.engine.artifacts import write_json
from evolora_core.engine.run_index import Entry, entries, suites
from evolora_core.engine.strict import stated
from evolora_core.errors import StageError
from evolora_core.searches.base import Experiment
from evolora_core.store import fingerprints

RETRIES = 3
_started: list[subprocess.Popen[bytes]] = []  # each in a session of its own, which an interrupt does not reach


@dataclass
class Victim:
    """One suite, and the processes that run it, with `environment` on top of ours."""

    config: Experiment
    folder: Path
    home: Path
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, config: Experiment, home: Path | None = None) -> "Victim":
        """A suite file in `folder`; the home is beside it unless given."""
        folder.mkdir(parents=True, exist_ok=True)
        victim = cls(config, folder, home or folder / "home", folder / "log.txt")
        write_json(victim.suite, stated(config))
        return victim

    @property
    def suite(self) -> Path:
        """Its suite file."""
        return self.folder / "suite.json"

    def start(self, *arguments: str, module: str = "flows.cli") -> subprocess.Popen[bytes]:
        """Start `evolora` with these arguments, `run` of the suite by default; in our working directory, where the
        relative paths of a suite lead.
        """
        words = arguments or ("run", str(self.suite), "--packs", str(self.folder / "packs"))
        with open(self.log, "a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                env=os.environ | self.environment | {"EVOLORA_HOME": str(self.home)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(process)
        _started.append(process)
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
                self.running.clear()
                return attempt
        raise StageError(f"{self.log}: {RETRIES} retries did not finish the suite: {self._last_error()}")

    def contents(self) -> dict[str, str]:
        """Fingerprints of all tables."""
        return fingerprints(self.home, str(suites(self.home)[-1]))

    def entries(self) -> list[Entry]:
        """What the index says of the stages."""
        return list(entries(self.home, suites(self.home)[-1]))

    def unfinished(self) -> list[str]:
        """Stages that are not done."""
        return [f"{entry.run_id}.{entry.stage}" for entry in self.entries() if entry.state not in ("done", "cached")]

    def said(self, words: str) -> bool:
        """Whether the log of the processes has these words."""
        return words.lower() in self.log.read_text(errors="replace").lower()

    def _last_error(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.startswith("error")), "no error line")


def end_all() -> None:
    """Kill what still runs of all victims, with their workers and servers."""
    for process in _started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    _started.clear()
