"""`evolora track` writes real files, which wandb's own reader reads, and sends nothing unless it is asked."""

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from example_suite import write_suite

from evolora_core.engine.plugins import search_modules
from evolora_core.searches.registry import get_search
from evolora_core.store import forget, frame, query, record
from evolora_core.tracking.runs import OWN, tracked_runs
from flows.cli import main

SUITE = "example-0a1b2c3d"
RUN = f"{SUITE}.ecology.s0"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished suite in its store."""
    home = tmp_path_factory.mktemp("tracked")
    for stage in write_suite(home, SUITE, seeds=(0,), items=24):
        record(home, stage)
    return home


@pytest.fixture(autouse=True)
def surroundings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home, and an environment that says nothing of wandb; what is set in it is taken back."""
    monkeypatch.setenv("EVOLORA_HOME", str(home))
    for name in ("WANDB_ERROR_REPORTING", "WANDB_CACHE_DIR", *(name for name in os.environ if name[:6] == "WANDB_")):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def wandb() -> Any:
    """The package, where it is installed."""
    return pytest.importorskip("wandb")


@pytest.fixture
def knocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The first lines of what was sent to a server that takes the place of wandb's, and refuses everything."""
    heard: list[bytes] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        place = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("WANDB_BASE_URL", f"http://{place}")
        monkeypatch.setenv("WANDB_SENTRY_DSN", f"http://key@{place}/1")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)

        def refuse() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:  # the server is closed
                    return
                with caller:
                    heard.append(caller.recv(4096).partition(b"\r\n")[0])
                    caller.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        threading.Thread(target=refuse, daemon=True).start()
        yield heard
        server.shutdown(socket.SHUT_RDWR)


def ended(*arguments: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


def records(folder: Path) -> list[Any]:
    """What is in the one file of a tracked run, as wandb reads it."""
    store = import_module("wandb.sdk.internal.datastore").DataStore()
    (file,) = folder.glob("run-*.wandb")
    store.open_for_scan(str(file))
    found = []
    while (data := store.scan_data()) is not None:
        found.append(import_module("wandb.proto.wandb_internal_pb2").Record.FromString(data))
    return found


def read(folder: Path) -> dict[str, Any]:
    """A tracked run: who it is, its settings, its history and its summary."""
    found: dict[str, Any] = {"history": [], "summary": {}, "kinds": set()}
    for record_ in records(folder):
        kind = record_.WhichOneof("record_type")
        found["kinds"].add(kind)
        if kind == "run":
            found |= {"run": record_.run, "settings": plain(record_.run.config.update)}
        elif kind == "history":
            found["history"].append(plain(record_.history.item))
        elif kind == "summary":
            found["summary"] |= plain(record_.summary.update)
    return found


def plain(items: Any) -> dict[str, Any]:
    """Names and values, without those of wandb's own."""
    named = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
    return {name: value for name, value in named.items() if not name.startswith("_")}


def test_every_run_of_a_suite_is_written_with_its_generations_and_scores(
    wandb: Any, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("track", "example", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    runs = [run for (run,) in query(home, "SELECT DISTINCT run_id FROM split_accuracy ORDER BY 1").rows]
    assert [row["run"] for row in rows] == runs and len(runs) == 4
    assert [Path(row["folder"]) for row in rows] == [home / "tracking" / run for run in runs]
    assert sorted(path.name for path in (home / "tracking").iterdir()) == runs
    for row in rows:
        found = read(Path(row["folder"]))
        generations = frame(home, "SELECT * FROM generation_summary WHERE run_id = ? ORDER BY generation", [row["run"]])
        wanted = generations.drop(columns=["suite", "run_id", "condition", "seed"]).to_dict("records")
        for generation, numbers in zip(wanted, found["history"], strict=True):
            own = {"generation": generation.pop("generation")}
            assert numbers == own | {f"generation/{name}": v for name, v in generation.items() if v == v}
        assert len(wanted) == row["generations"] and bool(wanted) == ("ecology" in row["run"] or "single" in row["run"])
        scores = query(home, "SELECT split, acc, lo, hi, n FROM split_accuracy WHERE run_id = ?", [row["run"]]).rows
        for split, *numbers in scores:
            told = [found["summary"][f"{split}/{name}"] for name in ("accuracy", "lo", "hi", "items")]
            assert told == pytest.approx(numbers, rel=1e-15)


def test_a_run_is_of_its_suite_and_has_its_settings_and_nothing_of_the_machine(
    wandb: Any, home: Path, tmp_path: Path
) -> None:
    assert ended("track", RUN, "--out", str(tmp_path), "--project", "mine") == 0
    assert [path.name for path in tmp_path.iterdir()] == [RUN]
    found = read(tmp_path / RUN)
    run = found["run"]
    assert (run.run_id, run.display_name, run.run_group, run.project) == (RUN, RUN, SUITE, "mine")
    ((config,),) = query(home, "SELECT config FROM suites").rows
    assert found["settings"] == json.loads(config) | {"condition": "ecology", "seed": 0}
    assert run.host == "" and not run.HasField("git")
    assert found["kinds"] == {"header", "run", "telemetry", "metric", "history", "summary", "exit"}  # no files
    assert not list((tmp_path / RUN / "files").iterdir())


def test_the_same_again_replaces_what_was_written(wandb: Any, tmp_path: Path) -> None:
    for _ in range(2):
        assert ended("track", RUN, "--out", str(tmp_path)) == 0
    assert [path.name for path in tmp_path.iterdir()] == [RUN]
    assert read(tmp_path / RUN)["run"].run_id == RUN
    assert [row["generation"] for row in read(tmp_path / RUN)["history"]] == list(
        range(len(read(tmp_path / RUN)["history"]))
    )


def test_a_run_that_still_goes_on_has_what_is_known(
    wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in write_suite(tmp_path / "home", SUITE, seeds=(0,), items=4):
        record(tmp_path / "home", stage)
    forget(tmp_path / "home", [(RUN, "evaluate")])
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    assert ended("track", RUN) == 0
    found = read(tmp_path / "home" / "tracking" / RUN)
    assert found["history"] and not [name for name in found["summary"] if name.endswith("/hi")]


def test_nothing_is_sent_unless_it_is_asked(
    wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knocks: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.chdir(tmp_path)
    assert ended("track", RUN, "--out", str(tmp_path / "out")) == 0
    assert knocks == []
    assert '"disable-analytics":true' in (tmp_path / "out" / RUN / "logs" / "debug-core.log").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    before = read(tmp_path / "out" / RUN)
    capsys.readouterr()
    assert ended("track", RUN, "--out", str(tmp_path / "out"), "--online") == 1  # the server refuses
    assert set(knocks) == {b"POST /graphql HTTP/1.1"}
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: --online: {RUN}: wandb: ")
    assert read(tmp_path / "out" / RUN) == before  # what was there is not lost


def test_a_folder_that_is_not_ours_is_left_alone(
    wandb: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "notes").write_text("mine")
    assert ended("track", RUN, "--out", str(tmp_path)) == 1
    assert "exists and is no tracked run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == [RUN, "notes"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("other", "no such suite"),
        ("example.ecology.s7", f"the store knows no such run; `evolora status {SUITE}` lists them"),
        ("example.ecology", "the store knows no such run"),
    ],
)
def test_what_there_is_not(wandb: Any, capsys: pytest.CaptureFixture[str], word: str, reason: str) -> None:
    assert ended("track", word) == 1
    printed = capsys.readouterr().err
    assert reason in printed and len(printed.splitlines()) == 1


def test_without_the_extra_it_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert ended("track", "example") == 1
    printed = capsys.readouterr().err
    assert "pip install -c constraints.txt -e '.[tracking]'" in printed and len(printed.splitlines()) == 1


@pytest.mark.parametrize("name", [name for name in search_modules() if name in ("adapters", "merging")])
def test_a_search_names_a_view_of_its_generations(home: Path, name: str) -> None:
    view = get_search(name).generations
    assert set(OWN) < set(frame(home, f"SELECT * FROM {view}").columns)
    assert tracked_runs(home, SUITE, view)
