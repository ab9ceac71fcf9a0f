"""The host of a stage is the one that its identity names."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.stage import HostUse, NoFacts, Work
from evolora_core.errors import StageError
from evolora_core.language.hosts.kept import stage_host


def test_a_host_that_changes_while_the_suite_runs_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "host"))

    def work() -> Work[Any]:
        use = HostUse(str(folder), "cpu", "float32", 1, files, {})
        return Work(config=NoFacts(), host=use, seed=0, folder=tmp_path)

    files = host_files_hash(folder)
    kept = stage_host(work()).model
    assert stage_host(work()).model is kept
    settings = folder / "config.json"
    settings.write_text(settings.read_text() + "\n")
    files += "0"  # any other one, so that it is loaded again
    with pytest.raises(StageError, match=f"{folder}: was changed while the suite runs"):
        stage_host(work())
    files = host_files_hash(folder)
    assert stage_host(work()).model is not kept
