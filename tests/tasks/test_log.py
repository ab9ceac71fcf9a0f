"""The log of a run, where it cannot be written."""

import logging
from pathlib import Path

import pytest

from tasks._log import LOG, run_log

log = logging.getLogger("evolora_core.stages")


@pytest.mark.parametrize("openable", [True, False])  # a disk may be too full to begin a file
def test_a_full_disk_fails_no_stage_and_is_told_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    openable: bool,
) -> None:
    monkeypatch.setattr(logging.getLogger("evolora_core"), "handlers", [])  # a console of another test, closed by now
    (tmp_path / LOG).symlink_to("/dev/full" if openable else tmp_path)
    with run_log(tmp_path, "evolve", "evolve s0") as warnings:
        for number in range(3):
            log.info("generation %d", number)
    (line,) = warnings
    assert line == f"warning: {tmp_path / LOG}: cannot be written"
    assert caplog.text.count("cannot be written") == 1 and "Traceback" not in capsys.readouterr().err
