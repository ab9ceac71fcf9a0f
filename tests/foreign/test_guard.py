"""Work in a copy of this process, which is ended whatever it does."""

import threading
import time

import pytest

from evolora_core.foreign import guard
from evolora_core.foreign.files import MIB, Unfit
from evolora_core.foreign.guard import Begin, guarded


def test_a_copy_that_waits_for_a_lock_of_another_thread_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_GIVEN_UP", 0.3)
    lock = threading.Lock()

    def work(begin: Begin) -> str:
        with lock:  # in the copy nobody releases it
            begin()
        return "done"

    with lock, pytest.raises(Unfit, match="has not begun; try again"):
        guarded(work, seconds=0.1, memory=64 * MIB)
    assert guarded(work, seconds=5, memory=64 * MIB) == "done"


def test_its_seconds_count_once_it_has_begun() -> None:
    def work(begin: Begin) -> str:
        time.sleep(0.2)
        begin()
        time.sleep(60)
        return "done"

    with pytest.raises(Unfit, match=r"took more than 0.1 s"):
        guarded(work, seconds=0.1, memory=64 * MIB)
