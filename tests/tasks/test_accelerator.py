"""Turns on an accelerator, between processes. The device need not be there: what is shared is its name."""

import subprocess
import sys
import time

import pytest

from tasks._accelerator import accelerator

HOLD = """
import sys, time
from tasks._accelerator import accelerator
with accelerator(sys.argv[1]):
    print("mine", flush=True)
    sys.stdin.readline()
    print(time.time(), flush=True)
"""


@pytest.fixture
def holder(tmp_path, monkeypatch):
    """Another process that has a device until it is told to let go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    command = [sys.executable, "-c", HOLD, "cuda:0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "mine\n"
        yield process
        process.stdin.close()


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_another_device_is_free(holder, device):
    with accelerator(device):
        assert holder.poll() is None


def test_two_processes_take_turns(holder, caplog):
    with caplog.at_level("INFO"):
        second = subprocess.Popen(
            [sys.executable, "-c", HOLD, "cuda"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        time.sleep(0.5)
        holder.stdin.write("go\n")
        holder.stdin.flush()
        released = float(holder.stdout.readline())
        assert second.stdout.readline() == "mine\n"
        now, _ = time.time(), second.communicate("go\n")
    assert now > released


def test_a_killed_holder_leaves_the_device_free(holder):
    holder.kill()
    with accelerator("cuda"):
        pass
