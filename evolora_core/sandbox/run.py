"""Running foreign code from the side of whoever wants its result.

    with Sandbox() as sandbox:
        limits = Limits(seconds=60, memory=1 << 30, file_bytes=1 << 26)
        outcome = sandbox.run(folder, "package.module:function", limits)

`function(folder)` is ours; the program that it loads from the folder is not. Whatever lies in the folder afterwards was
written by the child: read it with `untrusted.py`. An outcome `ok` says no more than that the child ended with status 0.
"""

import contextlib
import json
import math
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from evolora_core.errors import StageError
from evolora_core.sandbox import landlock, seccomp, syscalls
from evolora_core.sandbox.limits import Limits

__all__ = ["Limits", "Outcome", "Sandbox", "refusal"]

_NURSERY = "evolora_core.sandbox.nursery"
_SILENCE_SECONDS = 300.0  # of a nursery that works: it imports torch from a cold disk on a busy machine
_LONGEST_LINE = 1 << 24


@dataclass(frozen=True)
class Outcome:
    """How an evaluation ended.

    status         ok, failed (its exception is the reason), timeout, memory (that limit was met), killed (a signal)
    cpu_seconds    of all its threads, user and system, as the kernel counted
    peak_bytes     resident, with what it shares with the nursery
    """

    status: Literal["ok", "failed", "timeout", "memory", "killed"]
    reason: str
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int


def refusal() -> str:
    """Why foreign programs cannot be confined on this machine; "" if they can."""
    if sys.platform != "linux":
        return f"programs are confined by Landlock and seccomp of Linux, and this is {sys.platform}"
    if sys.byteorder != "little" or sys.maxsize < 2**32 or syscalls.architecture() is None:
        return f"programs are confined on {' and '.join(syscalls.ARCHITECTURES)} with a 64-bit Python alone"
    if (version := landlock.abi()) < landlock.OLDEST:
        found = f"version {version}" if version else "none"
        return f"the kernel has to offer Landlock of version {landlock.OLDEST} (Linux 6.2) or later, and offers {found}"
    if not seccomp.known():
        return "the kernel does not filter system calls (seccomp)"
    return ""


def _environment() -> dict[str, str]:
    """What a nursery needs to find modules, and no more: no keys, no home."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",  # each further thread would take 64 MiB of address space
        "CUDA_VISIBLE_DEVICES": "",  # a child computes on processors: a device has no limits that we could set
        **{name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
    }


class Sandbox:
    """A nursery and the children that it forks, one at a time; make several for evaluations in parallel.

    preload   modules that the nursery imports first. A confined child cannot import anything of the standard library,
              or of this package, that is not loaded by then, by the modules here or by that of the entry.
    loaded    the source files of all modules that are loaded in the nursery: a child has them, with their docstrings,
              in its memory. What has to stay hidden from it must not be among them.
    """

    def __init__(self, preload: Sequence[str] = ("torch",), *, confined: bool = True) -> None:
        if confined and (why := refusal()):
            raise StageError(f"foreign programs are not run here: {why}")
        self.loaded: tuple[str, ...] = ()
        self._settings = {"preload": list(preload), "confined": confined}
        self._nursery: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._interrupted = False

    def __enter__(self) -> Self:
        with self._lock:
            self._interrupted = False
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, folder: Path, entry: str, limits: Limits) -> Outcome:
        """Runs `entry` ("module:function") with the folder, the only place that the child may write.

        The child can make plain files there: no folders, links or pipes. It can change those that it finds there, so
        none of them may be a file that has another name elsewhere.
        """
        folder = folder.resolve(strict=True)
        if shared := [path.name for path in folder.iterdir() if path.is_file() and path.lstat().st_nlink > 1]:
            raise ValueError(f"{folder}: {shared[0]} has another name elsewhere; put a copy there")
        job = {"folder": str(folder), "entry": entry, "limits": asdict(limits)}
        with self._lock:
            if self._interrupted:
                raise StageError("interrupted")
            began = time.monotonic()
            self._start()
            try:
                self._send(job)
                answer = self._answer()
            except (EOFError, BrokenPipeError, TimeoutError) as error:
                reason = f"the sandbox itself stopped: {error}{self._last_words()}"
                self._stop()
                if self._interrupted:
                    raise StageError("interrupted") from None
                return Outcome("killed", reason, math.nan, time.monotonic() - began, 0)
            except BaseException:
                self._stop()  # interrupted: an answer that comes later would be taken for that of another job
                raise
        if "error" in answer:
            raise ImportError(answer["error"])
        return Outcome(**answer)

    def interrupt(self) -> None:
        """Ends a run for which another thread waits. That one raises StageError then, and so do further ones."""
        self._interrupted = True
        if self._lock.locked() and (nursery := self._nursery) is not None:
            nursery.kill()  # its child dies with it

    def close(self) -> None:
        """Ends the nursery, and with it a child that still runs."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        if self._nursery is not None and self._nursery.poll() is None:
            return
        self._stop()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed in _stop
        self._nursery = subprocess.Popen(
            [sys.executable, "-P", "-s", "-B", "-m", _NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(),
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the parent, which then ends it
        )
        try:
            self._send(self._settings)
            answer = self._answer()
        except (EOFError, BrokenPipeError, TimeoutError) as error:
            words = self._last_words()
            self._stop()
            raise StageError(f"the sandbox does not start: {error}{words}") from None
        except BaseException:
            self._stop()
            raise
        if "error" in answer:
            self._stop()
            raise ImportError(answer["error"])
        self.loaded = tuple(answer["loaded"])

    def _send(self, content: dict[str, Any]) -> None:
        assert self._nursery is not None and self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(content).encode() + b"\n")
        self._nursery.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        """The nursery's next line. It says nothing unasked, so that nothing comes behind the end of a line."""
        assert self._nursery is not None and self._nursery.stdout is not None
        pipe, line = self._nursery.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            if len(line) > _LONGEST_LINE or not select.select([pipe], [], [], _SILENCE_SECONDS)[0]:
                raise TimeoutError(f"no sign of life within {_SILENCE_SECONDS:g} s")
            piece = os.read(pipe, 1 << 16)
            if not piece:
                raise EOFError("it ended without an answer")
            line += piece
        content: dict[str, Any] = json.loads(line)
        return content

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1]})" if lines else ""

    def _stop(self) -> None:
        if self._nursery is not None:
            self._nursery.kill()  # its child dies with it
            self._nursery.wait()
            for pipe in (self._nursery.stdin, self._nursery.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._nursery = None
        if self._log is not None:
            self._log.close()
            self._log = None
