"""What a forked child does: it shuts itself in, calls its entry, says how that went, and ends."""

import contextlib
import fcntl
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from evolora_core.sandbox import landlock, limits, seccomp
from evolora_core.sandbox.limits import Limits

OK, FAILED, MEMORY = 0, 1, 2  # how a child exits
REASON_BYTES = 4000
_REPORT = 3  # the file descriptor on which it says its reason


def _close_files(report: int) -> None:
    """Leaves the child none of the nursery's files: its pipes to the parent first of all."""
    null = os.open(os.devnull, os.O_RDWR)
    report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, _REPORT + 1)
    for number in range(_REPORT):
        os.dup2(null, number)
    os.dup2(report, _REPORT)
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if number > _REPORT:
            with contextlib.suppress(OSError):  # that of the listing itself is closed already
                os.close(number)


def _shut_in(nursery: int, folder: Path, limit: Limits, readable: Sequence[Path], confined: bool, report: int) -> None:
    _close_files(report)
    os.setsid()
    limits.die_with_parent(nursery)
    os.chdir(folder)
    limits.apply(limit)
    if confined:
        limits.drop_privileges()
        landlock.restrict(folder, readable)
        seccomp.restrict(os.getpid())


def _say(error: BaseException) -> None:
    """What went wrong, and in which line of which file."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    with contextlib.suppress(Exception):  # the message of a foreign exception may be anything
        words = f"{type(error).__name__}: {error}"
        os.write(_REPORT, f"{words[: REASON_BYTES // 4]}{place}".encode(errors="replace")[:REASON_BYTES])


def run(
    entry: Callable[[Path], object],
    folder: Path,
    limit: Limits,
    *,
    nursery: int,
    readable: Sequence[Path],
    confined: bool,
    report: int,
) -> None:
    """Runs `entry(folder)` in this process, which has just been forked, and ends it. Never returns.

    Nothing that the parent left for the end of a process happens: no exit functions, no flushing of buffers.
    """
    status = FAILED
    try:
        _shut_in(nursery, folder, limit, readable, confined, report)
        entry(folder)
        status = OK
    except BaseException as error:
        with contextlib.suppress(BaseException):
            status = MEMORY if limits.is_memory(error) else FAILED
            _say(error)
    finally:
        os._exit(status)
