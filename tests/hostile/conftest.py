"""What every kind of hostile input has to meet: it is accepted, or refused by one line, within time and memory."""

import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from evolora_core.errors import EvoloraError
from evolora_core.foreign.text import one_line

FEW = 60  # of each kind, the same ones every time; `make test-hostile` tries 10,000 fresh ones
EXAMPLES = int(os.environ.get("EVOLORA_HOSTILE_EXAMPLES", str(FEW)))
SECONDS, GIB = 20.0, 2**30
LINUX = sys.platform == "linux"

tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= FEW,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def accepted_or_refused(work: Callable[[], Any]) -> Any:
    """What `work` returns, or None where it refused its input; any other end is a failure of the test."""
    start = time.monotonic()
    try:
        return work()
    except EvoloraError as error:
        line = one_line(error)
        assert line and line.isprintable()
        return None
    finally:
        assert time.monotonic() - start < SECONDS


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """No example takes two gigabytes beside what the process has; nor does a process that it makes."""
    if LINUX:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak counts from here
    before, others = peak(), peak_of_others()
    yield
    assert peak() - before < 2 * GIB
    assert peak_of_others() <= max(others, before + 2 * GIB)


def peak() -> int:
    """The most memory that this process had, in bytes."""
    if LINUX:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status)[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def peak_of_others() -> int:
    """The most memory that a process had which this one made, in bytes."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1024 if LINUX else 1)
