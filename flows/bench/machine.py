"""On which machine, and of which code, a benchmark is measured."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

from evolora_core import __version__
from evolora_core.language.hosts.arithmetic import processor

ROOT = Path(__file__).parents[2]


def machine_facts() -> dict[str, str | int | None]:
    """Cores that this process may use, the processor, the versions of torch and of Evolora, and the commit of the
    checkout, with a + where files differ from it; None where Evolora is no checkout, or git is not there.
    """
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": processor(),
        "torch": version("torch"),
        "version": __version__,
        "code": _commit(),
    }


def _commit() -> str | None:
    if not (ROOT / ".git").exists():  # installed below somebody else's checkout
        return None
    words = ["git", "describe", "--always", "--exclude=*", "--dirty=+", "--abbrev=8"]
    try:
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() or None
