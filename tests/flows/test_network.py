"""Nothing phones home: a whole suite with the outside network blocked in every process, and what was attempted."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TINY = Path(__file__).resolve().parents[2] / "configs" / "suites" / "tiny.yaml"
# Python runs this at the start of every process that has it on its path: flow, workers, server.
SITE = """
import os, socket

LOCAL = ("127.", "::1", "localhost", "0.0.0.0")

def note(host):
    if host is not None and not str(host).startswith(LOCAL):
        with open(os.environ["ATTEMPTS"], "a") as file:
            file.write(f"{host}\\n")
        raise OSError(f"blocked: {host}")

def guard(name, place):
    real = getattr(socket, name) if place is None else getattr(place, name)
    def checked(*arguments, **options):
        if place is None:
            note(arguments[0])
        elif isinstance(arguments[1], tuple):
            note(arguments[1][0])
        return real(*arguments, **options)
    setattr(place or socket, name, checked)

guard("getaddrinfo", None)
guard("gethostbyname", None)
guard("connect", socket.socket)
guard("connect_ex", socket.socket)
"""


@pytest.fixture
def blocked(tmp_path: Path) -> Any:
    """The environment of a process that may talk to this machine alone, and the list of what it tried."""
    (tmp_path / "sitecustomize.py").write_text(SITE)
    attempts = tmp_path / "attempts.txt"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "HF_", "DO_NOT"))}
    return kept | {
        "PYTHONPATH": str(tmp_path),
        "ATTEMPTS": str(attempts),
        "EVOLORA_HOME": str(tmp_path / "home"),
    }, attempts


def test_the_guard_sees_what_is_attempted(blocked: Any) -> None:
    environment, attempts = blocked
    code = "import urllib.request as u\ntry: u.urlopen('http://example.com')\nexcept OSError: pass"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert attempts.read_text() == "example.com\n"


UNTUNED = ["seeds=[0]", "processes=2", "conditions=[frozen, ecology, sft]", "ecology.trials=[]", "sft.trials=[]"]


@pytest.mark.slow
def test_a_suite_asks_nobody_outside(blocked: Any, tmp_path: Path) -> None:
    environment, attempts = blocked
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "run", str(TINY), *(word for it in UNTUNED for word in ("--set", it))],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr  # DuckDB's bindings at the end of the process
    assert not attempts.exists(), attempts.read_text()
