"""Python functions of others, ended when they take too long.

A thread of ours looks after the one that calls, and raises in it once its time is up. That ends loops of Python; a call
into C that never comes back is not ended.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


class _Overdue(BaseException):
    """Raised in a thread from outside. No `except Exception` of the function takes it."""


class _Watch:
    """Who calls now, and until when it may. One call at a time for each thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: dict[int, float] = {}  # thread -> deadline
        self._watching = False

    def call(self, seconds: float, function: Callable[..., Answer], *given: object) -> Answer:
        own = threading.get_ident()
        try:
            try:
                self._begin(own, time.monotonic() + seconds)
                return function(*given)
            finally:
                self._end(own)
        except _Overdue:
            raise TimeoutError(f"took longer than {seconds:g} s") from None

    def _begin(self, own: int, deadline: float) -> None:
        with self._changed:
            self._calls[own] = deadline
            if not self._watching:
                threading.Thread(target=self._watch, daemon=True, name="overdue").start()
                self._watching = True
            self._changed.notify()

    def _end(self, own: int) -> None:
        with self._changed:
            if self._calls.pop(own, None) is not None:
                return
        # Its time was up at the same moment: what is raised in it and did not arrive yet is taken back.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(own), None)

    def _watch(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                for own in [thread for thread, deadline in self._calls.items() if deadline <= now]:
                    del self._calls[own]
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(own), ctypes.py_object(_Overdue))
                soonest = min(self._calls.values(), default=None)
                self._changed.wait(None if soonest is None else max(0.0, soonest - now))


_WATCH = _Watch()


def within(seconds: float, function: Callable[..., Answer], *given: object) -> Answer:
    """`function(*given)`, or TimeoutError once it has taken so many seconds. Its own exceptions are passed on."""
    return _WATCH.call(seconds, function, *given)
