"""Two processes that want the same stage take turns, and the second says that it waits."""

import logging
import threading
from pathlib import Path

import pytest
from filelock import FileLock
from prefect.exceptions import TerminationSignal

from tasks.stage import INTERRUPTED, _turn, reason


def test_who_waits_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lock, held, done = tmp_path / ".evolve.lock", threading.Event(), threading.Event()

    def hold() -> None:
        with FileLock(lock):
            held.set()
            done.wait()

    with _turn(lock):
        assert not caplog.messages
    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    threading.Timer(0.2, done.set).start()
    with _turn(lock):
        assert done.is_set() and caplog.messages == ["another process makes this stage; waiting for it"]
    other.join()


def test_a_reason_says_something() -> None:
    assert reason(TerminationSignal(signal=15)) == reason(KeyboardInterrupt()) == reason(SystemExit(1)) == INTERRUPTED
    assert reason(ValueError()) == "ValueError" and reason(ValueError("a\nb")) == "ValueError: a b"
