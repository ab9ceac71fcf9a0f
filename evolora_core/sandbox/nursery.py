"""The process that forks a child for each job, so that none of them pays for importing torch.

It is started by `run.py` as `python -m evolora_core.sandbox.nursery`, loads what it was told to
load, says so, and then reads one job as a line of JSON and answers one line, until its input ends. It never computes
and starts no thread: a fork in the middle of another thread's work would leave its locks held for ever.

    {"preload": [...], "confined": true}                              -> {"loaded": [files of modules]}
    {"folder": ..., "entry": "module:function", "limits": {...}}      -> {"status": ..., "reason": ..., ...}

Whatever a child sends, it is text that is shown to people.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.sandbox import child, limits, warming
from evolora_core.sandbox.limits import Limits

_FIRST_LOOK, _LAST_LOOK = 0.0005, 0.1  # seconds between two looks at a child, which double
_SIGN_SECONDS = 10.0  # between two signs of life


class ParentGone(Exception):
    """Nobody waits for an answer any more."""


def folder_bytes(folder: Path) -> int:
    """Disk that the files of a folder take; more than anybody may have if there are too many of them."""
    total = 0
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= limits.FILES:
                return sys.maxsize
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def threads(process: int) -> int:
    """How many threads a process has; 0 where the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[17])  # its name, before that, may hold anything


def queued_seconds(process: int) -> float:
    """How long a process was ready to run and others had the processors; 0 where the kernel does not say."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def complaint(process: int, folder: Path, largest: int) -> str:
    """Why a child has to be stopped; "" while it behaves. `largest` is what its folder may hold, in bytes."""
    if folder_bytes(folder) > largest:
        return f"its folder grew too large: more than {limits.FILES} files, or more bytes than allowed"
    if threads(process) > limits.THREADS:
        return f"more than {limits.THREADS} threads"
    return ""


def kill(process: int) -> None:
    """Kills a child and everybody in its session's group."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(process, signal.SIGKILL)


@dataclass(frozen=True)
class Ended:
    """How a child ended. `status` and `reason` are empty if it ended by itself."""

    status: str
    reason: str
    said: bytes
    code: int  # its exit status, or minus the signal that it died of
    usage: resource.struct_rusage


def wait(
    process: int, report: int, folder: Path, limit: Limits, largest: int, parent: int, sign: Callable[[], object]
) -> Ended:
    """Waits until a child has ended, or ends it; `sign` is called every 10 s meanwhile.

    The end of its report wakes the nursery at once. A child that closes or floods that is looked at every 0.1 s. Time
    in which others had the processors does not count: a busy machine is no fault of the child.
    """
    began = signed = time.monotonic()
    pause, said, listening = _FIRST_LOOK, b"", True
    status = reason = ""
    while True:
        done, code, usage = os.wait4(process, os.WNOHANG if not status else 0)
        if done:
            break
        now = time.monotonic()
        left = began + limit.seconds - now
        if left <= 0:
            left += queued_seconds(process)
        if now - signed >= _SIGN_SECONDS:
            sign()
            signed = now
        if left <= 0:
            status, reason = "timeout", f"more than {limit.seconds:g} s"
        elif words := complaint(process, folder, largest):
            status, reason = "killed", words
        if status:
            kill(process)
            continue
        ready, _, _ = select.select([parent, *([report] if listening else [])], [], [], min(pause, left))
        if parent in ready:  # it says nothing before it has its answer, so this is its end
            kill(process)
            raise ParentGone
        pause = min(2 * pause, _LAST_LOOK)
        if report in ready:
            said, listening = hear(report, said)
            pause = _FIRST_LOOK
    while listening and select.select([report], [], [], 0)[0]:
        said, listening = hear(report, said)
    return Ended(status, reason, said, os.waitstatus_to_exitcode(code), usage)


def hear(report: int, said: bytes) -> tuple[bytes, bool]:
    """What a child has said until now, and whether it is worth listening further."""
    piece = os.read(report, child.REASON_BYTES)
    said += piece
    return said[: child.REASON_BYTES], bool(piece) and len(said) < child.REASON_BYTES


def judged(ended: Ended, limit: Limits) -> tuple[str, str]:
    """The status and the reason in words."""
    said = "".join(letter if letter.isprintable() else " " for letter in ended.said.decode(errors="replace"))
    seconds = ended.usage.ru_utime + ended.usage.ru_stime
    if ended.status:
        return ended.status, ended.reason
    if ended.code == child.OK:
        return "ok", ""
    if ended.code == child.MEMORY:
        return "memory", said or "out of memory"
    if ended.code > 0:
        return "failed", said or f"it ended with status {ended.code}"
    if -ended.code == signal.SIGKILL and seconds >= limit.processor_seconds - 0.1:
        return "timeout", f"more than {limit.processor_seconds} s of processor time"
    if -ended.code == signal.SIGSYS:
        return "killed", "a system call of another architecture"
    names = {int(own): own.name for own in signal.Signals}  # most signals for real-time use have none
    return "killed", f"it died of {names.get(-ended.code, f'signal {-ended.code}')}"


def run_job(
    job: dict[str, Any],
    entry: Callable[[Path], object],
    readable: Sequence[Path],
    parent: int,
    sign: Callable[[], object],
) -> dict[str, Any]:
    """Forks a child for a job and returns the answer."""
    folder, limit = Path(job["folder"]), Limits(**job["limits"])
    largest = folder_bytes(folder) + limit.file_bytes
    report, sent = os.pipe()
    nursery, began = os.getpid(), time.monotonic()
    process = os.fork()
    if process == 0:
        child.run(entry, folder, limit, nursery=nursery, readable=readable, confined=job["confined"], report=sent)
    os.close(sent)
    try:
        ended = wait(process, report, folder, limit, largest, parent, sign)
    finally:
        os.close(report)
    if not job["confined"]:  # it may have left others running
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)
    status, reason = judged(ended, limit)
    return {
        "status": status,
        "reason": reason,
        "cpu_seconds": ended.usage.ru_utime + ended.usage.ru_stime,
        "wall_seconds": time.monotonic() - began,
        "peak_bytes": ended.usage.ru_maxrss * (1024 if sys.platform == "linux" else 1),
    }


def resolve(entry: str) -> Callable[[Path], object]:
    """The function `module:function`. The module is loaded here, where the standard library can be read."""
    module, _, name = entry.partition(":")
    found = getattr(importlib.import_module(module), name)
    if not callable(found):
        raise TypeError(f"{entry} is no function")
    return found  # type: ignore[no-any-return]


def serve(questions: int, answers: int) -> None:
    """Reads jobs and answers them until nobody asks any more."""
    lines = os.fdopen(questions, "r", encoding="utf-8", newline="\n")

    def answer(content: dict[str, Any]) -> None:
        os.write(answers, json.dumps(content).encode() + b"\n")

    settings = json.loads(lines.readline())
    try:
        warming.load(settings["preload"])
    except Exception as error:
        return answer({"error": f"{type(error).__name__}: {error}"})
    gc.collect()
    gc.freeze()  # so that collecting in a child copies no page of what it shares
    readable = warming.readable()
    answer({"loaded": warming.loaded()})
    for line in lines:
        job = json.loads(line) | {"confined": settings["confined"]}
        try:
            entry = resolve(job["entry"])
        except Exception as error:
            answer({"error": f"{job['entry']}: {type(error).__name__}: {error}"})
            continue
        answer(run_job(job, entry, readable, questions, lambda: os.write(answers, b" ")))
    return None


def main() -> None:
    """Serves on the standard streams; what libraries print goes to standard error instead."""
    questions, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    with contextlib.suppress(ParentGone, BrokenPipeError):
        serve(questions, answers)


if __name__ == "__main__":
    main()
