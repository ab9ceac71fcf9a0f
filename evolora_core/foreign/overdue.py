"""Python functions of others, ended when they take too long.

A thread of ours looks after the one that calls, and raises in it once its time is up. That ends loops of Python; a call
into C that never comes back is not ended. Time is the processor's, as far as one thread may ask for that of another, so
that a busy machine ends nothing; a function that waits has PATIENCE times as much of the clock.

A function may swallow the exception, as a bare `except:` does: so it comes again and again until the call is over.

The exception can come between any two instructions of the calling thread, also between a lock's acquisition and the
`with` that would release it. So a call takes no lock once its time counts. The watching thread says that it raises
before it looks whether the call is over. The caller says that it is over before it looks whether one is being raised.
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

PATIENCE = 10  # seconds of the clock for one of the processor
AGAIN = 0.1  # seconds after which a function that goes on gets the exception again


class _Overdue(BaseException):
    """Raised in a thread from outside. No `except Exception` of the function takes it."""


@dataclass(eq=False)
class _Call:
    """A function that runs now. clock: of its thread's processor time; None on systems without such clocks (macOS)."""

    thread: int
    clock: int | None
    seconds: float
    raising: bool = False  # by the watching thread, at this moment
    over: bool = False

    def __post_init__(self) -> None:
        self.count()

    def count(self) -> None:
        """Time counts from now."""
        self._latest = time.monotonic() + PATIENCE * self.seconds
        self._from = self._processor()

    def left(self) -> float:
        """Seconds for which it may go on at least."""
        return min(self._latest - time.monotonic(), self.seconds - (self._processor() - self._from))

    def _processor(self) -> float:
        if self.clock is not None:
            with suppress(OSError):  # the clock is of the process that this one was forked from
                return time.clock_gettime(self.clock)
        return 0.0


def _clock() -> int | None:
    """The clock of this thread's processor time."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return None
    return time.pthread_getcpuclockid(threading.get_ident())


class _Watch:
    """Which functions run now, and for how long they may. One for each thread."""

    def __init__(self) -> None:
        self._calls: dict[_Call, bool] = {}
        self._news: SimpleQueue[None] = SimpleQueue()  # wakes the watching thread
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, seconds: float, function: Callable[..., Answer], *given: object) -> Answer:
        self._start()
        own = _Call(threading.get_ident(), _clock(), seconds)
        try:
            try:
                self._calls[own] = True
                self._news.put(None)
                return function(*given)
            finally:
                self._end(own)
        except _Overdue:
            while True:
                try:
                    self._end(own)
                    break
                except _Overdue:  # once more, before the call was over
                    continue
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
        own.over = True
        self._calls.pop(own, None)
        while own.raising:  # its time was up at the same moment
            time.sleep(0)
        # The exception has come by now, or is taken back.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(own.thread), None)

    def _watch(self) -> None:
        while True:
            for call in list(self._calls):
                if call.left() > 0:
                    continue
                call.raising = True
                if not call.over:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(call.thread), ctypes.py_object(_Overdue))
                    call.seconds = AGAIN
                    call.count()
                call.raising = False
            soonest = min((call.left() for call in list(self._calls)), default=None)
            with suppress(Empty):  # a thread that is almost out of time may have to wait for a processor
                self._news.get(timeout=None if soonest is None else max(0.001, soonest))


_WATCH = _Watch()


def within(seconds: float, function: Callable[..., Answer], *given: object) -> Answer:
    """`function(*given)`, or TimeoutError once it has taken so many seconds of the processor, or has waited for too
    long. Its own exceptions are passed on.
    """
    return _WATCH.call(seconds, function, *given)
