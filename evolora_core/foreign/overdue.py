"""Python functions of others, ended when they take too long.

A thread of ours looks after the one that calls, and raises in it once its time is up. That ends loops of Python; a call
into C that never comes back is not ended.

The exception can come between any two instructions of the calling thread, also between a lock's acquisition and the
`with` that would release it. So a call takes no lock once its time counts: who ends it, the caller or the watching
thread, is who takes it out of a dictionary, which is one instruction.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

Answer = TypeVar("Answer")


class _Overdue(BaseException):
    """Raised in a thread from outside. No `except Exception` of the function takes it."""


@dataclass(eq=False)
class _Call:
    """A function that runs now."""

    thread: int
    raised: bool = False  # the exception is on its way, or has come


class _Watch:
    """Which functions run now, and until when they may. One for each thread."""

    def __init__(self) -> None:
        self._calls: dict[_Call, float] = {}  # with their deadlines
        self._news: SimpleQueue[None] = SimpleQueue()  # wakes the watching thread
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, seconds: float, function: Callable[..., Answer], *given: object) -> Answer:
        self._start()
        own = _Call(threading.get_ident())
        try:
            try:
                self._calls[own] = time.monotonic() + seconds
                self._news.put(None)
                return function(*given)
            finally:
                self._end(own)
        except _Overdue:
            raise TimeoutError(f"took longer than {seconds:g} s") from None

    def _start(self) -> None:
        """Begin to watch; also in a process that was forked from one that did, where no thread but the first lives."""
        if self._thread is None or not self._thread.is_alive():
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    self._news = SimpleQueue()
                    self._thread = threading.Thread(target=self._watch, daemon=True, name="overdue")
                    self._thread.start()

    def _end(self, own: _Call) -> None:
        if self._calls.pop(own, None) is None:  # its time was up at the same moment
            while not own.raised:
                time.sleep(0)
            # The exception has come by now, or is taken back.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(own.thread), None)

    def _watch(self) -> None:
        while True:
            now = time.monotonic()
            for call, deadline in list(self._calls.items()):
                if deadline <= now and self._calls.pop(call, None) is not None:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(call.thread), ctypes.py_object(_Overdue))
                    call.raised = True
            soonest = min(list(self._calls.values()), default=None)
            with suppress(Empty):
                self._news.get(timeout=None if soonest is None else max(0.0, soonest - time.monotonic()))


_WATCH = _Watch()


def within(seconds: float, function: Callable[..., Answer], *given: object) -> Answer:
    """`function(*given)`, or TimeoutError once it has taken so many seconds. Its own exceptions are passed on."""
    return _WATCH.call(seconds, function, *given)
