"""Hostile input through the console script itself: one line, an exit code, no traceback, nothing written."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CONSOLE = [sys.executable, "-c", "from flows.cli import console; console()"]
CASES = [
    ["run", "pipe"],
    ["run", "/dev/zero"],
    ["run", "bomb.yaml"],
    ["run", "deep.yaml"],
    ["evaluate", "--holdout", "/dev/zero"],
    ["evaluate", "--holdout", "pipe"],
    ["evaluate", "--holdout", "halves.jsonl"],
    ["evaluate", "--holdout", "good.jsonl", "--host", "good.jsonl"],
    ["evaluate", "--holdout", "good.jsonl", "--max-new-tokens", "1000000000000"],
    ["serve", "--limit", "-1"],
    ["bench", "engine", "--threads", "-1"],
    ["sql", "SELECT '\udcff'"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("work")
    os.mkfifo(folder / "pipe")
    lines = [f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 12)]
    (folder / "bomb.yaml").write_text("\n".join(["k0: &k0 [x]", *lines]))
    (folder / "deep.yaml").write_text("name: " + "[" * 50_000)
    (folder / "halves.jsonl").write_text('{"prompt": "\\ud800", "target": 2, "family": "math", "depth": "short"}\n')
    (folder / "good.jsonl").write_text('{"prompt": "1 + 1", "target": 2, "family": "math", "depth": "short"}\n')
    return folder


@pytest.mark.parametrize(
    "arguments", CASES, ids=lambda arguments: " ".join(arguments).encode("ascii", "replace").decode()
)
def test_a_command(folder: Path, arguments: Any) -> None:
    start, before = time.monotonic(), sorted(path.name for path in folder.iterdir())
    environment = os.environ | {"EVOLORA_HOME": str(folder / "home"), "PYTHONPATH": os.getcwd()}
    words = [os.fsencode(word) for word in arguments]
    done = subprocess.run([*CONSOLE, *words], cwd=folder, env=environment, capture_output=True, timeout=120)
    said = done.stderr.decode()
    assert done.returncode in (1, 2)
    assert done.stdout == b""
    assert said.startswith("error: ") and said.count("\n") == 1 and "fault of evolora" not in said, said
    assert {path.name for path in folder.iterdir()} - {*before} <= {"home"}
    assert time.monotonic() - start < 60  # twenty seconds on a machine that does nothing else
