"""The bare name of a deployment, and what is refused before it is submitted."""

import logging
from pathlib import Path
from typing import Any

import pytest
from prefect.plugins import HookContext

from flows._server import is_served, serve_lock
from flows.prefect_plugin import full_name, parameters, refusal, setup_environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("prefect deployment run paper-suite", "prefect deployment run paper-suite/paper-suite"),
        ("prefect deployment run paper-suite --watch", "prefect deployment run paper-suite/paper-suite --watch"),
        ("prefect deployment run a/b", "prefect deployment run a/b"),
        ("prefect deployment run --id 1", "prefect deployment run --id 1"),
        ("prefect deployment run", "prefect deployment run"),
        ("prefect deployment ls", "prefect deployment ls"),
    ],
)
def test_only_a_bare_name_is_completed(line: str, meant: str) -> None:
    assert full_name(line.split()) == meant.split()


def test_serve_is_seen_from_before_it_has_an_address(tmp_path: Path) -> None:
    assert not is_served(tmp_path)
    (tmp_path / "prefect").mkdir()
    assert not is_served(tmp_path)
    with serve_lock(tmp_path).acquire(timeout=0):
        assert is_served(tmp_path)
    assert not is_served(tmp_path)


def test_a_home_that_cannot_be_written_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr("sys.argv", ["prefect", "deployment", "run", "paper-suite"])
    with pytest.raises(SystemExit):
        setup_environment(ctx=HookContext("3", None, logging.getLogger))
    said = capsys.readouterr().err
    assert f"{tmp_path / 'file' / 'home'}: EVOLORA_HOME is not writable" in said and said.count("\n") == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/api", ""])
def test_a_server_that_does_not_answer_is_told_in_one_line(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", address)
    monkeypatch.setattr("sys.argv", ["prefect", "deployment", "run", "benchmark"])
    if address:
        with pytest.raises(SystemExit):
            setup_environment(ctx=HookContext("3", None, logging.getLogger))
    else:
        setup_environment(ctx=HookContext("3", None, logging.getLogger))
    said = capsys.readouterr().err
    why = f"{address} does not answer" if address else "what is submitted now waits until one starts there"
    assert why in said and said.count("\n") == 1


def test_parameters_are_read_as_prefect_reads_them() -> None:
    options = ["-p", "suite=a.yaml", "--param=seeds=[1, 2]", "--params", '{"host": "nano"}', "--watch"]
    assert parameters(options) == {"suite": "a.yaml", "seeds": [1, 2], "host": "nano"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-p", "suite=nofile.yaml"], "nofile.yaml: cannot be read"),
        (["-p", 'overrides=["ecology.generatons=4"]'], "unknown key 'ecology.generatons'"),
        (["-p", "host=nohost"], "host 'nohost': no such name"),
        (["-p", 'only=["nothing.s0"]'], "nothing.s0: quickstart-"),
        (["-p", 'overrides=["workers=clouds"]'], "workers: clouds: unknown"),
        (["-p", 'seeds=["x"]'], "should be a valid integer"),
        (["-p", "seeds=[0]"], ""),
    ],
)
def test_what_would_fail_at_once_is_refused(
    options: Any, why: str, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.chdir(ROOT)
    found = refusal(["paper-suite/paper-suite", *options, "-p", f"packs={home}"])
    assert (why in found) if why else not found
