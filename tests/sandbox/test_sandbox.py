"""Hostile programs as real children: what they may not reach. The same attacks succeed where nobody is confined."""

import ctypes
import json
import os
import platform
import pydoc_data
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confinement import confined
from sandbox import sandbox_attacks as attacks

from evolora_core.sandbox.run import Limits, Outcome, Sandbox, refusal

needs_numbers = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of calls are those of x86-64")
LIMITS = Limits(seconds=20, memory=1 << 29, file_bytes=1 << 20)
EPERM = -1


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(["sandbox_attacks"]) as confined:
        yield confined


@pytest.fixture(scope="module")
def open_house() -> Iterator[Sandbox]:
    with Sandbox(["sandbox_attacks"], confined=False) as unconfined:
        yield unconfined


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The child's folder, beside another with a file that it must not see."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "held-out").write_text("held out", encoding="utf-8")
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def run(sandbox: Sandbox, folder: Path, attack: str, limits: Limits = LIMITS) -> Outcome:
    return sandbox.run(folder, f"sandbox_attacks:{attack}", limits)


def said(folder: Path) -> object:
    return json.loads((folder / "said").read_text(encoding="utf-8"))


READING = [
    "read_passwords",
    "list_root",
    "read_own_environment",
    "read_upwards",
    "import_topics",
    "read_device",
    "read_parents_environment",
    "read_parents_pipe",
]
REACHING = ["use_socket", "use_abstract_socket", "use_socket_pair", "fork", "run_shell", "run_process", "execute"]


@confined
@pytest.mark.parametrize("attack", READING + REACHING)
def test_refused_to_the_confined_and_possible_without(
    sandbox: Sandbox, open_house: Sandbox, folder: Path, attack: str
) -> None:
    outcome = run(sandbox, folder, attack)
    assert outcome.status == "failed" and ("denied" in outcome.reason or "not permitted" in outcome.reason), outcome
    assert run(open_house, folder, attack).status == "ok"


@confined
@pytest.mark.parametrize(
    "attack",
    [
        "read_parents_memory",
        "execute_memory",
        "fork_bomb",
        "kill_everybody",
        "kill_parent",
        "kill_parent_by_its_pipe",
        "leave_session",
        "limit_parent",
        "raise_limits",
    ],
)
def test_refused(sandbox: Sandbox, folder: Path, attack: str) -> None:
    outcome = run(sandbox, folder, attack)
    assert outcome.status == "failed" and outcome.reason.startswith(("PermissionError", "ValueError: not allowed"))
    assert run(sandbox, folder, "nothing").status == "ok"


@confined
@pytest.mark.parametrize("name", ["topics.py", "__init__.py"])
def test_the_sources_of_the_standard_library_are_hidden(sandbox: Sandbox, folder: Path, name: str) -> None:
    home = Path(pydoc_data.__file__).parent
    compiled = list((home / "__pycache__").glob("*.pyc")) or [Path(json.__file__)]
    for path in (home / name, home.parent / "heapq.py", *compiled):
        (folder / "told").write_text(str(path), encoding="utf-8")
        outcome = run(sandbox, folder, "read_told")
        assert outcome.reason.startswith("PermissionError"), path


@confined
def test_what_a_child_finds_in_memory_is_named(sandbox: Sandbox) -> None:
    assert str(Path(json.__file__).resolve()) in sandbox.loaded
    assert not [path for path in sandbox.loaded if "pydoc_data" in path]


@confined
def test_a_link_in_the_folder_leads_nowhere(sandbox: Sandbox, folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "other" / "held-out")
    assert run(sandbox, folder, "read_by_link").reason.startswith("PermissionError")


@confined
@pytest.mark.parametrize(
    "attack",
    [
        "read_told",
        "write_told",
        "append_told",
        "truncate_told",
        "truncate_by_opening",
        "remove_told",
        "move_told_here",
        "link_told_here",
        "open_told_to_all",
    ],
)
def test_a_file_beside_the_folder_stays_as_it_is(sandbox: Sandbox, folder: Path, attack: str) -> None:
    victim = folder.parent / "other" / "held-out"
    (folder / "told").write_text(str(victim), encoding="utf-8")
    before = victim.stat()
    outcome = run(sandbox, folder, attack)
    assert outcome.status == "failed" and outcome.reason.startswith(("PermissionError", "OSError: [Errno 18]"))
    assert victim.read_text(encoding="utf-8") == "held out" and victim.stat().st_mode == before.st_mode


@confined
def test_a_file_with_another_name_elsewhere_is_not_handed_over(sandbox: Sandbox, folder: Path) -> None:
    """A child may change what lies in its folder, and with it the other."""
    (folder / "shared").hardlink_to(folder.parent / "other" / "held-out")
    with pytest.raises(ValueError, match="shared"):
        run(sandbox, folder, "nothing")


@confined
def test_nothing_new_is_written_outside(sandbox: Sandbox, folder: Path) -> None:
    for place in (folder.parent / "new", Path("/dev/shm/evolora-sandbox-attack"), Path("/evolora-sandbox-attack")):
        (folder / "told").write_text(str(place), encoding="utf-8")
        assert run(sandbox, folder, "write_told").reason.startswith("PermissionError") and not place.exists()


@confined
@pytest.mark.parametrize("attack", ["make_link", "make_pipe", "make_folder"])
def test_a_result_is_a_plain_file(sandbox: Sandbox, folder: Path, attack: str) -> None:
    assert run(sandbox, folder, attack).reason.startswith("PermissionError")
    assert not os.path.lexists(folder / "result.json")


@confined
def test_a_stranger_is_not_killed(sandbox: Sandbox, folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (folder / "told").write_text(str(stranger.pid), encoding="utf-8")
        outcome = run(sandbox, folder, "kill_told")
        stranger.communicate(b"\n")
    assert outcome.reason.startswith("PermissionError") and stranger.returncode == 0


@confined
@needs_numbers
def test_calls_by_number_are_refused(sandbox: Sandbox, open_house: Sandbox, folder: Path) -> None:
    assert run(sandbox, folder, "raw_calls").status == "ok"
    confined = said(folder)
    assert isinstance(confined, dict) and len(confined) > 20
    assert confined.pop("open") == -13
    assert {name for name, result in confined.items() if result != EPERM} == set()
    assert run(open_house, folder, "raw_calls").status == "ok"
    unconfined = said(folder)
    assert isinstance(unconfined, dict)
    assert {name for name, result in unconfined.items() if result == EPERM} == set()


@confined
@needs_numbers
def test_calls_of_root_are_refused(sandbox: Sandbox, folder: Path) -> None:
    assert run(sandbox, folder, "raw_calls_of_root").status == "ok"
    results = said(folder)
    assert isinstance(results, dict) and len(results) > 50
    assert {name for name, result in results.items() if result != EPERM} == set()


@confined
@needs_numbers
def test_clone_starts_no_process(sandbox: Sandbox, open_house: Sandbox, folder: Path) -> None:
    assert run(sandbox, folder, "clone_a_process").reason.startswith("PermissionError")
    assert run(open_house, folder, "clone_a_process").status == "ok"


@confined
@needs_numbers
def test_a_call_of_another_architecture_is_deadly(sandbox: Sandbox, folder: Path) -> None:
    assert run(sandbox, folder, "call_of_32_bits").status == "killed"
    assert not (folder / "said").exists()


@confined
def test_a_child_inherits_nothing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("EVOLORA_LLM_KEY", attacks.SECRET)
    with (folder.parent / "other" / "held-out").open() as kept, Sandbox(()) as fresh:
        os.set_inheritable(kept.fileno(), True)
        assert run(fresh, folder, "see").status == "ok"
    found = said(folder)
    assert isinstance(found, dict)
    assert attacks.SECRET not in str(found) and "HOME" not in found["environment"]
    assert found["files"][:3] == ["/dev/null"] * 3 and len(found["files"]) == 4
    assert found["files"][3].startswith("pipe:") and found["here"] == str(folder)


def wait_for(condition: object, seconds: float = 20) -> bool:
    """Whether a condition, which is called again and again, holds at last."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not (held := bool(condition())) and time.monotonic() < end:
        time.sleep(0.01)
    return held


def number_of_child(folder: Path) -> int:
    assert wait_for(lambda: (folder / "said").exists() and (folder / "said").read_text(encoding="utf-8"))
    number = said(folder)
    assert isinstance(number, int)
    return number


def gone(process: int) -> bool:
    """Whether a process has ended; a zombie that nobody has fetched has."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
    return text.rpartition(")")[2].split()[0] in "ZX"


@confined
def test_the_kernel_says_that_a_child_has_no_privileges_and_it_dies_with_the_nursery(folder: Path) -> None:
    outcomes: list[Outcome] = []
    with Sandbox(["sandbox_attacks"]) as fresh:
        thread = threading.Thread(target=lambda: outcomes.append(run(fresh, folder, "wait_to_be_seen")))
        thread.start()
        process = number_of_child(folder)
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        sets = {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
        assert sets == {"0" * 16} and (os.geteuid() != 0 or int(status["CapBnd"], 16) == 0)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and status["Threads"] == "1"
        os.kill(int(status["PPid"]), signal.SIGKILL)
        thread.join(20)
        assert outcomes[0].status == "killed" and "the sandbox itself stopped" in outcomes[0].reason
        assert wait_for(lambda: gone(process))
        assert run(fresh, folder, "nothing").status == "ok"  # by a new nursery


@confined
def test_a_child_dies_with_whoever_asked_for_it(folder: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from evolora_core.sandbox.run import Limits, Sandbox\n"
        f"Sandbox(()).run(Path({str(folder)!r}), 'sandbox_attacks:wait_to_be_seen',"
        " Limits(60, 1 << 29, 1 << 20))"
    )
    paths = os.pathsep.join(sys.path)
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}) as asking:
        process = number_of_child(folder)
        asking.kill()
    assert wait_for(lambda: gone(process))


@confined
def test_where_nobody_can_be_confined_foreign_programs_are_refused(sandbox: Sandbox, folder: Path) -> None:
    """A confined child is such a place: it may not ask for Landlock."""
    assert run(sandbox, folder, "ask_for_refusal").status == "ok"
    answer: Any = said(folder)
    why, refused = answer
    assert "Landlock" in why and "none" in why and refused == f"foreign programs are not run here: {why}"


@pytest.mark.parametrize("confined", [pytest.param(True, marks=confined), False])
def test_work_is_possible(sandbox: Sandbox, open_house: Sandbox, folder: Path, confined: bool) -> None:
    house = sandbox if confined else open_house
    assert run(house, folder, "use_threads").status == "ok" and said(folder) == [499500] * 4
    assert run(house, folder, "use_files").status == "ok" and said(folder) == "new"
    outcome = run(house, folder, "raise_value_error")
    assert outcome.status == "failed" and outcome.cpu_seconds < 5 and outcome.peak_bytes > 1 << 20
    assert outcome.reason.startswith("ValueError: this is wrong (sandbox_attacks.py, line ")


def test_a_wrong_entry_is_a_fault_of_ours(open_house: Sandbox, folder: Path) -> None:
    for entry in ("no_such_module:f", "sandbox_attacks:no_such_function", "json:__name__"):
        with pytest.raises(ImportError, match=entry):
            open_house.run(folder, entry, LIMITS)
    with pytest.raises(ImportError, match="no_such_module"), Sandbox(["no_such_module"], confined=False):
        pass
    assert run(open_house, folder, "nothing").status == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'")
def test_a_kernel_with_landlock_is_not_refused() -> None:
    """Otherwise a fault of ours would skip the tests of what is confined."""
    if ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 3:  # landlock_create_ruleset: its version
        assert refusal() == ""
