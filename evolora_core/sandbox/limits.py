"""How much a child may use, and which privileges it gives up."""

import contextlib
import errno
import math
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from evolora_core.sandbox import libc

# A file without a name (renamed over while open) holds `file_bytes` of disk: at most so many of them. One that is
# mapped into memory and closed is not counted: a program that maps files by itself can fill the disk.
OPEN_FILES = 32
THREADS = 128  # the kernel's own memory for threads is in no limit, and root is in no limit of their number
FILES = 4096  # in the folder


@dataclass(frozen=True)
class Limits:
    """What one evaluation may use.

    seconds      of the clock, without those in which the child was ready and others had the processors; as much
                 processor time over all threads, rounded up
    memory       bytes of address space beyond what the nursery has, so that torch itself does not count
    file_bytes   of one file, and by which the folder may grow altogether
    """

    seconds: float
    memory: int
    file_bytes: int

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf and self.memory > 0 and self.file_bytes > 0):
            raise ValueError(f"limits have to be positive and finite: {self}")

    @property
    def processor_seconds(self) -> int:
        return math.ceil(self.seconds) + 1


def _set(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def address_space() -> int:
    """Bytes of address space that this process has mapped."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def apply(limits: Limits) -> None:
    """Sets the limits of this process, which it cannot raise once it has no privileges."""
    _set(resource.RLIMIT_CPU, limits.processor_seconds)
    _set(resource.RLIMIT_FSIZE, limits.file_bytes)
    _set(resource.RLIMIT_NOFILE, OPEN_FILES)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_MEMLOCK, 0)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows too large is an OSError
    if sys.platform == "linux":  # elsewhere address space has another meaning, and there is no limit of memory
        with contextlib.suppress(OSError):  # where memory ends after all, the child goes first
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        _set(resource.RLIMIT_AS, address_space() + limits.memory)


# linux/prctl.h
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38


def die_with_parent(parent: int) -> None:
    """The kernel kills this process once its parent, which has that number, has died."""
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        os._exit(1)


def drop_privileges() -> None:
    """Gives up every capability of root, now and for what this process might execute, core dumps and tracing."""
    with contextlib.suppress(PermissionError):  # nobody but root has a bounding set to shrink
        for capability in range(64):
            try:
                libc.prctl(_PR_CAPBSET_DROP, capability)
            except OSError as error:
                if error.errno != errno.EINVAL:  # past the last one that the kernel knows
                    raise
                break
    libc.drop_capabilities()
    libc.prctl(_PR_SET_DUMPABLE, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1)


_NO_MEMORY = ("can't allocate memory", "not enough memory", "Cannot allocate memory")


def is_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: Python's own, or torch's, which has no class for it."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in _NO_MEMORY)
