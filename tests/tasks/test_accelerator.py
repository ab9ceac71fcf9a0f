"""Turns on an accelerator, between processes. The device need not be there: what is shared is its name."""

import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_stages import count, toy_request

from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.stage import StageResult
from evolora_core.language.hosts.catalog import find_host
from tasks._accelerator import accelerator
from tasks.stage import perform

HOLD = """
import sys
from tasks._accelerator import accelerator
print("ready", flush=True)
with accelerator(sys.argv[1]):
    print("mine", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Another process that has a device until it is told to let go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    command = [sys.executable, "-c", HOLD, "cuda:0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "mine\n"]
        yield process
        process.kill()  # to let the device go it would import torch


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_another_device_is_free(holder: Any, device: str) -> None:
    with accelerator(device):
        assert holder.poll() is None


def test_two_processes_take_turns(holder: Any) -> None:
    command = [sys.executable, "-c", HOLD, "cuda"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout is not None
        assert second.stdout.readline() == "ready\n"
        assert not select.select([second.stdout], [], [], 0.5)[0]  # it waits
        holder.stdin.write("go\n")
        holder.stdin.flush()
        assert second.stdout.readline() == "mine\n"
        second.kill()


def test_a_stage_that_stands_waits_for_no_device(holder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    request = toy_request(1, {})
    made = perform(request, count)
    assert request.host is not None
    again = replace(request, host=replace(request.host, device="cuda"))
    found: list[StageResult] = []
    asking = threading.Thread(target=lambda: found.append(perform(again, count)), daemon=True)
    asking.start()
    asking.join(30)
    assert found == [made] and holder.poll() is None


def test_a_killed_holder_leaves_the_device_free(holder: Any) -> None:
    holder.kill()
    entered = threading.Event()

    def enter() -> None:
        with accelerator("cuda"):
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    assert entered.wait(30)


def test_an_idle_process_keeps_no_host_on_the_device(holder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from evolora_core.language.hosts import kept

    kept._load("nano", "cpu", "float32", host_files_hash(find_host("nano").path))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    with accelerator("cpu"):
        pass
    assert kept._load.cache_info().currsize == 1
    with accelerator("cuda:1"):
        pass
    assert kept._load.cache_info().currsize == 0
