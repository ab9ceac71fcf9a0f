"""EVOLORA_HOME: where it is, what it sets, and one line when it cannot be written."""

import os
from pathlib import Path

import pytest

from evolora_core.engine.home import elsewhere, environment, home_path, prepare_home, reach_this_machine
from evolora_core.errors import StoreError


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.chdir(tmp_path)


def test_the_default_is_below_the_working_directory(tmp_path: Path) -> None:
    os.environ.pop("EVOLORA_HOME", None)
    assert home_path() == tmp_path / ".evolora"
    assert not home_path().exists()


def test_preparing_creates_the_folders_and_keeps_caches_inside(tmp_path: Path) -> None:
    os.environ["EVOLORA_HOME"] = "elsewhere"
    for name in environment(Path()):
        os.environ.pop(name, None)
    home = prepare_home()
    assert home == tmp_path / "elsewhere"
    assert {"runs", "hosts", "cache", "prefect"} <= {path.name for path in home.iterdir()}
    assert os.environ["EVOLORA_HOME"] == str(home)
    for name in ("PREFECT_HOME", "PREFECT_RESULTS_LOCAL_STORAGE_PATH", "HF_HOME", "MPLCONFIGDIR"):
        assert Path(os.environ[name]).is_relative_to(home)
    assert os.environ["DO_NOT_TRACK"] == "1"


def test_a_child_with_another_home_gets_nothing_of_ours() -> None:
    for name in environment(Path()):
        os.environ.pop(name, None)
    os.environ["HF_HOME"] = "/their/cache"
    prepare_home()
    child = elsewhere()
    assert not {"PREFECT_HOME", "PREFECT_RESULTS_LOCAL_STORAGE_PATH", "MPLCONFIGDIR"} & child.keys()
    assert child["HF_HOME"] == "/their/cache" and child["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://proxy:3128"}, "127.0.0.1,localhost"),
        ({"https_proxy": "http://proxy:3128", "NO_PROXY": "a.b, localhost"}, "a.b,localhost,127.0.0.1"),
        ({"all_proxy": "http://proxy:3128", "no_proxy": "*"}, "*"),
    ],
)
def test_no_proxy_stands_between_processes_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], passed: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    reach_this_machine()
    assert os.environ.get("no_proxy") == passed == os.environ.get("NO_PROXY")


def test_what_the_user_set_stays(tmp_path: Path) -> None:
    os.environ["HF_HOME"] = "/their/cache"
    prepare_home()
    assert os.environ["HF_HOME"] == "/their/cache"


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.environ["EVOLORA_HOME"] = str(tmp_path / "file")
    with pytest.raises(
        StoreError, match=r"file: EVOLORA_HOME is not writable \(.+\); set EVOLORA_HOME to a folder that is"
    ):
        prepare_home()
