"""`evolora run --estimate` where it is refused; tests/flows/test_finished_suite.py has one that is not."""

from pathlib import Path

import pytest

from evolora_core.language.hosts.arithmetic import RECORD
from evolora_core.searches.registry import load_experiment
from flows._preflight import use_host
from flows.cli import main

TINY = str(Path(__file__).resolve().parents[2] / "configs" / "suites" / "tiny.yaml")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--only", "s0"], "--only: an estimate is of the whole suite"),
        (["--set", "host=smollm2-135m-q4"], "`evolora host fetch smollm2-135m-q4`"),
        (["--set", "host=nobody"], "nobody"),
        (["--set", "ecology.nope=1"], "nope"),
    ],
)
def test_an_estimate_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], reason: str
) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    with pytest.raises(SystemExit) as end:
        main(["run", TINY, "--estimate", *more])
    printed = capsys.readouterr()
    assert end.value.code == 1 and printed.out == ""
    assert printed.err.startswith("error: ") and reason in printed.err and printed.err.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_what_an_estimate_measures_settles_no_later_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    suite = load_experiment(TINY, ["dtype=auto"])
    used = use_host(suite, keep=False)
    assert used and used.dtype in ("float32", "bfloat16") and not (tmp_path / "home").exists()
    use_host(suite)
    assert (tmp_path / "home" / RECORD).is_file()


def test_an_estimate_fetches_no_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the base of a merge suite nor what it merges."""
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    hub = str(Path(TINY).with_name("merge-hub.yaml"))
    for changes in ([], ["--set", "host=nano-merge"]):
        with pytest.raises(SystemExit) as end:
            main(["run", hub, "--estimate", *changes])
        printed = capsys.readouterr()
        assert end.value.code == 1 and "is not on this machine; bring it by `evolora host fetch" in printed.err
    assert not (tmp_path / "home").exists()
