"""Work of others that may never end or grow without bound: done in a copy of this process, which can be killed.

Neither a timer nor an exception ends a function of C that computes for an hour; the kernel ends a process at once.
"""

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

import psutil

from evolora_core import errors
from evolora_core.foreign.files import MIB, Unfit

_LOOK = 0.02  # seconds between two looks at the memory
# Seconds beside its own after which a copy is given up: one that was made while another thread held a lock may wait for
# it forever, and has begun nothing then. Where its seconds are a processor's, the machine may have none for it.
_GIVEN_UP = 120.0
Begin = Callable[[], None]


def guarded(work: Callable[[Begin], str], *, seconds: float, memory: int, processor: bool = False) -> str:
    """What `work` returns. It gets a function that it calls when its seconds begin to count; with `processor` only
    those count in which it computes, so that a busy machine changes nothing.

    Raises the EvoloraError that it raises, and Unfit where it took more than `seconds`, or more than `memory` bytes
    beside what this process has already, or where two minutes more bring no answer. Nothing else that it does is seen
    here, as it is done in another process.
    """
    reading, writing = os.pipe()
    own = psutil.Process().memory_info().rss
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(work, signal.ITIMER_PROF if processor else signal.ITIMER_REAL, seconds, writing)
    os.close(writing)
    try:
        said = _listen(reading, child, own + memory, seconds + _GIVEN_UP)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)  # it is a zombie by now, or has to go: its number is not free before we wait
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF):
        raise Unfit(f"took more than {seconds:g} s" + (" of a processor" if processor else ""))
    kind, text = said[:1], said[1:].decode("utf-8", "surrogatepass")
    if kind == b"=":
        return text
    if kind == b"!":
        name, message = json.loads(text)
        raise getattr(errors, name)(message)
    if kind == b"?":
        raise RuntimeError(text)
    raise Unfit("ended without an answer; it may have taken more memory than there is")


def _work(work: Callable[[Begin], str], timer: int, seconds: float, pipe: int) -> NoReturn:
    """The copy's life."""
    for number in (signal.SIGALRM, signal.SIGPROF, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)

    def begin() -> None:
        signal.setitimer(timer, seconds)

    try:
        said = b"=" + work(begin).encode("utf-8", "surrogatepass")
    except errors.EvoloraError as error:
        known = next(kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
        said = b"!" + json.dumps([known, str(error)]).encode()
    except MemoryError:
        said = b""
    except BaseException:
        said = b"?" + traceback.format_exc().encode("utf-8", "backslashreplace")
    try:
        with os.fdopen(pipe, "wb") as out:
            out.write(said)
    finally:
        os._exit(0)


def _listen(pipe: int, child: int, memory: int, seconds: float) -> bytes:
    """All that the copy says until it ends. Raises Unfit if it has more than `memory` bytes, or is late."""
    parts: list[bytes] = []
    until = time.monotonic() + seconds
    process = psutil.Process(child)
    while True:
        if select.select([pipe], [], [], _LOOK)[0]:
            part = os.read(pipe, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)
        try:
            if process.memory_info().rss > memory:
                raise Unfit(f"took more than {memory // MIB} MB of memory")
        except psutil.Error:  # it has just ended
            pass
        if time.monotonic() > until:
            raise Unfit(f"has no answer after {seconds:g} s (the machine may be busy: try again)")
