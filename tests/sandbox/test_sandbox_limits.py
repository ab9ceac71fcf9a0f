"""Hostile programs that use too much, or deceive whoever waits for them."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confinement import confined

from evolora_core.sandbox.nursery import Ended, judged
from evolora_core.sandbox.run import Limits, Outcome, Sandbox

pytestmark = confined
SHORT = Limits(seconds=0.5, memory=1 << 28, file_bytes=1 << 20)
LONG = Limits(seconds=30, memory=1 << 28, file_bytes=1 << 20)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(["sandbox_attacks"]) as confined:
        yield confined


@pytest.fixture(autouse=True)
def _goes_on(sandbox: Sandbox, tmp_path: Path) -> Iterator[None]:
    """Whatever a child did, the next one is served by the same nursery."""
    before = sandbox._nursery
    yield
    assert run(sandbox, tmp_path, "nothing", LONG).status == "ok" and sandbox._nursery is before


def run(sandbox: Sandbox, folder: Path, attack: str, limits: Limits) -> Outcome:
    return sandbox.run(folder, f"sandbox_attacks:{attack}", limits)


@pytest.mark.parametrize("attack", ["loop", "loop_deaf", "stop_itself", "flood_report"])
def test_endless_is_a_timeout(sandbox: Sandbox, tmp_path: Path, attack: str) -> None:
    began = time.monotonic()
    outcome = run(sandbox, tmp_path, attack, SHORT)
    assert (outcome.status, outcome.reason) == ("timeout", "more than 0.5 s")
    assert 0.5 <= outcome.wall_seconds <= time.monotonic() - began


def test_a_loop_costs_what_the_kernel_counted(sandbox: Sandbox, tmp_path: Path) -> None:
    busy, idle = (run(sandbox, tmp_path, attack, SHORT).cpu_seconds for attack in ("loop", "stop_itself"))
    assert 0 <= idle < busy < 5


def test_a_busy_machine_is_no_fault_of_the_child(sandbox: Sandbox, tmp_path: Path) -> None:
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("the kernel does not say how long a process waited")
    assert sandbox._nursery is not None
    cores = os.sched_getaffinity(0)
    core = {min(cores)}
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(4)]
    try:
        for process in (sandbox._nursery.pid, *(other.pid for other in others)):
            os.sched_setaffinity(process, core)
        outcome = run(sandbox, tmp_path, "compute_for_a_while", replace(SHORT, seconds=1.0))
    finally:
        os.sched_setaffinity(sandbox._nursery.pid, cores)
        for other in others:
            other.kill()
            other.wait()
    assert outcome.status == "ok" and outcome.wall_seconds > 1


@pytest.mark.parametrize("attack", ["take_3_gigabytes", "take_bit_by_bit", "map_shared"])
def test_too_much_memory(sandbox: Sandbox, tmp_path: Path, attack: str) -> None:
    outcome = run(sandbox, tmp_path, attack, LONG)
    assert outcome.status == "memory" and outcome.reason
    assert outcome.peak_bytes < 1 << 30


def test_too_large_a_file(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = run(sandbox, tmp_path, "write_large", LONG)
    assert outcome.status == "failed" and "File too large" in outcome.reason
    assert (tmp_path / "large").stat().st_size <= LONG.file_bytes


@pytest.mark.parametrize("attack", ["write_many", "write_many_empty"])
def test_too_many_files(sandbox: Sandbox, tmp_path: Path, attack: str) -> None:
    outcome = run(sandbox, tmp_path, attack, LONG)
    assert outcome.status == "killed" and "its folder grew too large" in outcome.reason
    for path in tmp_path.iterdir():
        path.unlink()


def test_what_lay_in_the_folder_does_not_count(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(bytes(3 << 20))
    assert run(sandbox, tmp_path, "use_files", LONG).status == "ok"


def test_too_many_open_files(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = run(sandbox, tmp_path, "open_many", LONG)
    assert outcome.status == "failed" and "Too many open files" in outcome.reason


def test_too_many_threads(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = run(sandbox, tmp_path, "start_many_threads", LONG)
    assert (outcome.status, outcome.reason) == ("killed", "more than 128 threads")


def test_a_child_that_leaves_early_has_left_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    assert run(sandbox, tmp_path, "leave_early", LONG).status == "ok"
    assert not list(tmp_path.iterdir())


def test_other_ends(sandbox: Sandbox, tmp_path: Path) -> None:
    assert run(sandbox, tmp_path, "exit_with_a_number", LONG).status == "failed"
    assert run(sandbox, tmp_path, "close_report", LONG).status == "ok"
    unspeakable = run(sandbox, tmp_path, "raise_unspeakable", LONG)
    assert (unspeakable.status, unspeakable.reason) == ("failed", "it ended with status 1")
    coloured = run(sandbox, tmp_path, "raise_long_and_coloured", LONG).reason
    assert coloured.startswith("ValueError:  [31mred ") and coloured.isprintable() and len(coloured) < 4000
    fallen = run(sandbox, tmp_path, "fall_over", LONG)
    assert (fallen.status, fallen.reason) == ("killed", "it died of SIGSEGV")
    nameless = run(sandbox, tmp_path, "die_of_a_signal_without_a_name", LONG)  # and does not end the nursery with it
    assert (nameless.status, nameless.reason) == ("killed", f"it died of signal {signal.SIGRTMIN + 1}")


def test_whoever_is_killed_for_its_processor_time_ran_out_of_time() -> None:
    def usage(seconds: float) -> resource.struct_rusage:
        return resource.struct_rusage([seconds, *[0] * 15])  # type: ignore[arg-type]

    killed = [Ended("", "", b"", -signal.SIGKILL, usage(seconds)) for seconds in (SHORT.processor_seconds, 0.1)]
    assert [judged(ended, SHORT)[0] for ended in killed] == ["timeout", "killed"]


def test_limits_are_positive() -> None:
    for wrong in ((0, 1, 1), (float("inf"), 1, 1), (float("nan"), 1, 1), (1, 0, 1), (1, 1, -1)):
        with pytest.raises(ValueError, match="positive"):
            Limits(*wrong)  # type: ignore[arg-type]
