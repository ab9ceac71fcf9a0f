"""Commands as people give them, in this process."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(words)
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def foretold(
    home: Path, folder: Path, suite: str, capsys: pytest.CaptureFixture[str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """What one more seed of a suite file in `folder` would take, by condition and kind of stage; the other seed stands.
    Nothing of the home is written.
    """
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(home))
        patch.chdir(folder)
        code, out, err = command(capsys, "run", suite, "--set", "seeds=[0,1]", "--estimate", "--json")
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
    found = json.loads(out)
    assert all(row["stages"] == 2 * row["done"] for row in found)
    return {(row["condition"], row["stage"]): row for row in found}
