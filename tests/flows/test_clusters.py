"""The same suite in one process and on local clusters: equal tables."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine.run_index import suites
from evolora_core.store import fingerprints

pytestmark = pytest.mark.distributed
SUITE = Path(__file__).parents[2] / "configs" / "suites" / "tiny.yaml"


def run(folder: Path, *settings: str) -> dict[str, str]:
    """Run the smallest suite in a home of its own; what its tables hold."""
    folder.mkdir()
    words = [word for setting in settings for word in ("--set", setting)]
    subprocess.run(
        [sys.executable, "-m", "flows.cli", "run", str(SUITE), *words],
        cwd=folder,
        env=os.environ | {"EVOLORA_HOME": str(folder)},
        check=True,
        timeout=600,
    )
    return fingerprints(folder, str(suites(folder)[-1]))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run(tmp_path_factory.mktemp("homes") / "alone", "processes=1")


@pytest.mark.parametrize("workers", ["dask", "ray"])
def test_a_cluster_finds_what_one_process_finds(alone: Any, tmp_path: Path, workers: str) -> None:
    assert run(tmp_path / workers, "processes=2", f"workers={workers}") == alone
