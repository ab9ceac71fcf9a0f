"""The log of a run: where it cannot be written, and which stage its lines name."""

import io
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


def test_a_line_on_a_console_that_prefect_made_late_names_the_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = logging.StreamHandler(said := io.StringIO())
    console.setFormatter(logging.Formatter("%(name)s | %(message)s"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [console])
    for stage in ("sft", "evolve"):  # the second one finds what the first one did
        with run_log(tmp_path, stage, f"{stage} s0"):
            log.info("step %d", 1)
            logging.getLogger("another").warning("its own")
    log.info("between stages")
    assert said.getvalue().splitlines() == [
        "evolora_core.stages | sft s0: step 1",
        "another | its own",
        "evolora_core.stages | evolve s0: step 1",
        "another | its own",
        "evolora_core.stages | between stages",
    ]
