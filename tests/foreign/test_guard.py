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

    with lock, pytest.raises(Unfit, match=r"has no answer after 0.4 s \(the machine may be busy: try again\)"):
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


def test_seconds_of_a_processor_are_those_in_which_it_computes() -> None:
    def waits(begin: Begin) -> str:
        begin()
        time.sleep(0.5)  # as on a machine that is busy with other work
        return "done"

    def computes(begin: Begin) -> str:
        begin()
        while True:
            pass

    assert guarded(waits, seconds=0.2, memory=64 * MIB, processor=True) == "done"
    with pytest.raises(Unfit, match=r"took more than 0.2 s of a processor"):
        guarded(computes, seconds=0.2, memory=64 * MIB, processor=True)


def test_a_copy_that_takes_too_much_memory_is_ended() -> None:
    def hoards(begin: Begin) -> str:
        begin()
        held = []
        while True:
            held.append(b"x" * (8 * MIB))
            time.sleep(0.01)

    with pytest.raises(Unfit, match="memory"):
        guarded(hoards, seconds=60, memory=64 * MIB)
