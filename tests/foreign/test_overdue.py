"""Functions that take too long are ended, and nothing of that is felt later."""

import os
import threading
import time
from contextlib import suppress

import pytest

from evolora_core.foreign.overdue import within


def spin(seconds: float) -> str:
    """A loop of Python for so many seconds of the processor, that swallows what it can."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        try:
            sum(range(100))
        except Exception:
            continue
    return "done"


def test_what_is_quick_is_passed_on() -> None:
    assert within(5, spin, 0.001) == "done"
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)


def test_a_loop_without_end_is_ended() -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"took longer than 0.1 s"):
        within(0.1, spin, 1000)
    assert time.monotonic() - started < 30


def swallow(seconds: float) -> str:
    """The same, but that it swallows everything."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        try:
            sum(range(100))
        except:  # noqa: E722
            continue
    return "done"


def test_who_swallows_everything_is_ended_all_the_same() -> None:
    for _ in range(3):
        with pytest.raises(TimeoutError, match=r"took longer than 0.1 s"):
            within(0.1, swallow, 1000)


def wait(seconds: float) -> str:
    """What a busy machine does to a function: it waits."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
    return "done"


def test_waiting_for_a_processor_does_not_count() -> None:
    assert within(0.5, wait, 1.0) == "done"


def test_what_waits_without_end_is_ended() -> None:
    with pytest.raises(TimeoutError):
        within(0.05, wait, 1000)


def test_what_ends_at_its_limit_disturbs_nothing() -> None:
    """Calls that end when their time does: each gives an answer or a TimeoutError, no exception comes later, and the
    next loop without end is ended too.
    """
    for _ in range(400):
        with suppress(TimeoutError):
            assert within(0.002, spin, 0.002) == "done"
        assert spin(0.001) == "done"
    with pytest.raises(TimeoutError):
        within(0.1, spin, 60)


def test_a_function_that_swallows_all_is_not_disturbed_later() -> None:
    def swallow() -> str:
        with suppress(BaseException):
            spin(60)
        return "done"

    assert within(0.05, swallow) == "done"
    assert spin(0.2) == "done"


def test_a_forked_process_ends_loops_too() -> None:
    within(5, spin, 0.001)  # somebody watches here
    child = os.fork()
    if child == 0:
        with suppress(TimeoutError):
            within(0.1, spin, 60)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_have_their_own_time() -> None:
    found: dict[float, str] = {}

    def call(limit: float) -> None:
        try:
            found[limit] = within(limit, spin, 1.0)
        except TimeoutError:
            found[limit] = "ended"

    threads = [threading.Thread(target=call, args=(limit,)) for limit in (0.05, 60.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0.05: "ended", 60.0: "done"}
