"""Confined children compute with torch as everybody does."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from confinement import confined

from evolora_core.sandbox.run import Limits, Outcome, Sandbox
from evolora_core.sandbox.untrusted import read_array, read_json

pytestmark = confined
LIMITS = Limits(seconds=60, memory=1 << 30, file_bytes=1 << 20)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as confined:
        yield confined


def run(sandbox: Sandbox, folder: Path, entry: str) -> Outcome:
    return sandbox.run(folder, f"sandbox_work:{entry}", LIMITS)


def test_training_works_and_is_the_same_each_time(sandbox: Sandbox, tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        outcome = run(sandbox, folder, "train")
        assert outcome.status == "ok", outcome
        found.append(
            (read_json(folder / "result.json", 10_000), read_array(folder / "logits.safetensors", "logits", (4, 5, 8)))
        )
    (report, logits), (again, logits_again) = found
    assert report == again and np.array_equal(logits, logits_again)
    assert report["losses"][-1] < 0.8 * report["losses"][0] and report["flops"] > 0 and report["threads"] == 1


def test_operators_that_load_late(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = run(sandbox, tmp_path, "many_operators")
    assert outcome.status == "ok", outcome


def test_memory_of_tensors(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = run(sandbox, tmp_path, "take_3_gigabytes")
    assert outcome.status == "memory" and "allocate" in outcome.reason


def test_no_result_hangs_on_chance(sandbox: Sandbox, tmp_path: Path) -> None:
    outcome = run(sandbox, tmp_path, "draw_by_chance")
    assert outcome.status == "failed" and "/dev/urandom" in outcome.reason


def test_what_is_loaded_is_no_corpus(sandbox: Sandbox) -> None:
    assert len(sandbox.loaded) > 500
    assert not [path for path in sandbox.loaded if "pydoc_data" in path or "idlelib" in path]
