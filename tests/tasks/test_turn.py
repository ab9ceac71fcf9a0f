"""How a stage is made: two processes take turns, and the second says that it waits; why a stage failed is kept."""

import io
import logging
import resource
import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from filelock import FileLock
from prefect.exceptions import TerminationSignal
from prefect.states import Failed
from safetensors import SafetensorError
from safetensors.torch import save_file
from toy_stages import Toy, toy_request

from evolora_core.engine.artifacts import turn
from evolora_core.engine.stage import Made, NoFacts, Stage, Work
from evolora_core.errors import StageError
from evolora_core.searches.attention.proposers.client import Endpoint, _unanswered
from evolora_core.store.connection import Locked, Unwritable
from tasks._worker import show_log
from tasks.stage import INTERRUPTED, is_fault, perform, reason


class Terminal(io.StringIO):
    """What a worker's stderr is where a person looks on."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_who_waits_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a worker does, too, which says else what its bar cannot."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(logging.getLogger("evolora_core"), "handlers", [])
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    show_log(worker=True)
    lock, held, done = tmp_path / ".evolve.lock", threading.Event(), threading.Event()

    def hold() -> None:
        with FileLock(lock):
            held.set()
            done.wait()

    with turn(tmp_path / "evolve"):
        assert not caplog.messages
    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    threading.Timer(0.2, done.set).start()
    with turn(tmp_path / "evolve"):
        assert done.is_set() and caplog.messages == ["another process makes this stage; waiting for it"]
    other.join()
    logging.getLogger("evolora_core.stages").info("started")
    assert terminal.getvalue().endswith("waiting for it\n") and terminal.getvalue().count("\n") == 1


@pytest.mark.parametrize(("status", "again"), [(None, True), (503, True), (429, True), (401, False)])
def test_a_server_that_does_not_answer_is_asked_again_later(status: int | None, again: bool) -> None:
    fault = _unanswered(Endpoint("http://127.0.0.1:9/v1", "m"), "refused", status)
    assert is_fault(SimpleNamespace(), SimpleNamespace(), Failed(data=fault)) is again  # type: ignore[arg-type]


def test_a_stage_s_own_reason_is_kept_where_the_index_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    request = toy_request(1, {})
    index = request.suite.index(tmp_path)

    def body(work: Work[Toy]) -> Made[NoFacts]:
        shutil.rmtree(index)
        index.write_text("in the way")
        raise StageError("too few rows")

    with pytest.raises(StageError, match="too few rows"):
        perform(request, Stage("count", toy_request, body))
    assert "shared.s1.count: the index cannot be written (File exists)" in caplog.text


def test_a_reason_says_something() -> None:
    assert reason(TerminationSignal(signal=15)) == reason(KeyboardInterrupt()) == reason(SystemExit(1)) == INTERRUPTED
    assert reason(ValueError()) == "ValueError" and reason(ValueError("a\nb")) == "ValueError: a b"


@pytest.mark.parametrize(
    ("fault", "again"),
    [(Locked("held"), True), (Unwritable("full"), True), (OSError(28, "no space"), True), (ConnectionError(), True)]
    + [(StageError("wrong"), False), (PermissionError(), False), (FileNotFoundError(), False), (ValueError(), False)]
    + [(SafetensorError("Error while deserializing header: incomplete metadata"), False)],
)
def test_disks_locks_and_connections_are_tried_again(fault: Exception, again: bool) -> None:
    assert is_fault(SimpleNamespace(), SimpleNamespace(), Failed(data=fault)) is again  # type: ignore[arg-type]


def test_weights_that_a_disk_refuses_are_tried_again(tmp_path: Path) -> None:
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, largest[1]))
    try:
        with pytest.raises(SafetensorError) as full:
            save_file({"weight": torch.zeros(1000)}, tmp_path / "adapter.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    assert is_fault(SimpleNamespace(), SimpleNamespace(), Failed(data=full.value))  # type: ignore[arg-type]
