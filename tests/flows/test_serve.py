"""`evolora serve` as people use it: from two shells, with a busy port, until SIGTERM."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partialmethod
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from filelock import FileLock, Timeout
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.settings import PREFECT_API_URL, temporary_settings

from evolora_core.engine.run_index import now
from evolora_core.errors import StageError
from evolora_core.store import query
from flows import _server
from flows._server import (
    ADDRESS,
    _healthy,
    _listening,
    _started,
    _wait_until_healthy,
    embedded_prefect,
    known_server,
    shared_prefect,
)
from flows.serve import deployments, forget_missed

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
FROZEN = ["processes=1", "conditions=[frozen]", "seeds=[0]", "evaluation.comparisons=[]"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server with its deployments, the nightly schedule on; (its process, the environment of another shell)."""
    home = tmp_path_factory.mktemp("serve")
    dropped = ("PREFECT_", "EVOLORA_", "HF_")
    shell = {name: value for name, value in os.environ.items() if not name.startswith(dropped)} | {
        "EVOLORA_HOME": str(home)
    }
    with socket.socket() as busy:
        try:
            busy.bind(("127.0.0.1", 4200))
            busy.listen()
        except OSError:
            pass  # somebody else keeps it busy
        process = subprocess.Popen(
            [BIN / "evolora", "serve", "--nightly"],
            cwd=ROOT,
            stdout=(home / "said.txt").open("w"),
            stderr=subprocess.STDOUT,
            env=shell | {"PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2", "PREFECT_RUNNER_POLL_FREQUENCY": "1"},
        )
        wait_for(lambda: (home / ADDRESS).exists(), 120)
        url = json.loads((home / ADDRESS).read_text())["url"]
        wait_for(lambda: len(post(url, "deployments/filter", {})) == 7, 60)
        yield process, shell, url
    process.kill()


def wait_for(condition: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.5)


def post(url: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"{url}/{path}", json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def prefect(shell: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "prefect", *words], cwd=ROOT, env=shell, capture_output=True, text=True, timeout=300)


def test_a_busy_port_is_avoided_and_every_flow_has_its_deployment(served: Any) -> None:
    _, _, url = served
    assert ":4200/" not in url
    names = {deployment["name"] for deployment in post(url, "deployments/filter", {})}
    assert names == {
        "paper-suite", "evo-vs-sft", "ood-suite", "merge-evolution", "attention-search", "benchmark", "pretrain-host",
    }  # fmt: skip


def test_a_port_is_held_before_its_server_listens() -> None:
    with _listening(0) as one:
        port = one.getsockname()[1]
        with _listening(port) as other:
            assert other.getsockname()[1] != port
    with _listening(port) as again:
        assert again.getsockname()[1] == port


def test_a_second_one_in_the_same_home_is_refused(served: Any) -> None:
    _, shell, _ = served
    second = subprocess.run(
        [BIN / "evolora", "serve"], cwd=ROOT, env=shell, capture_output=True, text=True, timeout=120
    )
    assert second.returncode and "`evolora serve` runs there already" in second.stderr.splitlines()[-1]


def test_the_nightly_run_is_scheduled(served: Any) -> None:
    _, _, url = served
    scheduled = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    wait_for(lambda: post(url, "flow_runs/filter", scheduled), 60)
    assert all(run["auto_scheduled"] for run in post(url, "flow_runs/filter", scheduled))


def test_parameters_are_described_and_checked_by_the_server(served: Any) -> None:
    _, _, url = served
    (deployment,) = [d for d in post(url, "deployments/filter", {}) if d["name"] == "paper-suite"]
    assert all(field["description"] for field in deployment["parameter_openapi_schema"]["properties"].values())
    with pytest.raises(urllib.error.HTTPError) as wrong:
        post(url, f"deployments/{deployment['id']}/create_flow_run", {"parameters": {"only": "no list"}})
    assert wrong.value.code == 409 and "is not of type 'array'" in wrong.value.read().decode()


@pytest.mark.slow
def test_a_benchmark_runs_as_a_deployment(served: Any) -> None:
    """Its rows are in the store, and the page of their history stands with the flow run."""
    _, shell, url = served
    (deployment,) = [d for d in post(url, "deployments/filter", {}) if d["name"] == "benchmark"]
    assert [schedule["schedule"]["cron"] for schedule in deployment["schedules"]] == ["0 8 * * *"]
    quick = "engine --population 2 --rows 2 --rank 2 --prompt-tokens 12 --new-tokens 2 --repeats 1 --only generate"
    done = prefect(shell, "deployment", "run", "benchmark", "--params", json.dumps({"benches": [quick]}), "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = query(Path(shell["EVOLORA_HOME"]), "SELECT ratio, torch FROM benchmark_history").rows
    (page,) = [own for own in post(url, "artifacts/filter", {}) if own["key"] == "benchmark-history"]
    assert page["flow_run_id"] and f"| {kept[0]:.3f} |" in page["data"] and kept[1] in page["data"]


def test_the_bare_name_runs_from_another_shell_and_a_failed_run_is_retried_by_prefect(
    served: Any, tmp_path: Path
) -> None:
    """The reason is in the run's state; once it is mended, Prefect's own retry finishes the same run."""
    _, shell, url = served
    obstacle = Path(shell["EVOLORA_HOME"]) / "runs" / "blocked" / "frozen-s0" / "evaluate"
    obstacle.parent.mkdir(parents=True)
    obstacle.touch()  # where a folder has to be
    given = {"suite": "configs/suites/tiny.yaml", "overrides": [*FROZEN, "name=blocked"], "packs": str(tmp_path)}
    done = prefect(shell, "deployment", "run", "paper-suite", "--params", json.dumps(given), "--watch")
    assert done.returncode == 1, done.stdout + done.stderr
    (run,) = post(url, "flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["FAILED"]}}}})
    assert run["name"].startswith("blocked-") and "frozen.s0.evaluate: FileExistsError" in run["state"]["message"]
    obstacle.unlink()
    assert prefect(shell, "flow-run", "retry", run["id"]).returncode == 0
    blocked = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    wait_for(lambda: post(url, "flow_runs/filter", blocked)[0]["state_type"] == "COMPLETED", 600)
    assert [*obstacle.glob("*/manifest.json")] and (tmp_path / "blocked" / "README.md").exists()
    said = (Path(shell["EVOLORA_HOME"]) / "said.txt").read_text()
    assert " - evaluate frozen s0: started\n" in said  # Prefect alone names no stage


def test_two_commands_in_a_home_have_a_log_each(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, shell, url = served
    folder = Path(shell["EVOLORA_HOME"]) / "prefect"
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(folder))
    (first,) = folder.glob("server*.log")
    assert first.name == f"server-{urlsplit(url).port}.log"

    def one_at_a_time(*given: Any) -> None:  # for both would make the database of a new home
        with pytest.raises(Timeout):
            FileLock(folder / "start.lock").acquire(timeout=0)
        _wait_until_healthy(*given)

    monkeypatch.setattr(_server, "_wait_until_healthy", one_at_a_time)
    with _started(folder.parent, private=True), FileLock(folder / "start.lock", timeout=0):
        (second,) = {*folder.glob("server*.log")} - {first}
    assert first.exists() and not second.exists()  # one that says nothing is not kept


def test_sigterm_ends_the_server_and_a_flow_in_plain_words(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    process, shell, url = served
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    home = Path(shell["EVOLORA_HOME"])
    assert known_server(home) == url
    (long,) = [d for d in post(url, "deployments/filter", {}) if d["name"] == "pretrain-host"]
    run = post(url, f"deployments/{long['id']}/create_flow_run", {})
    ours = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    wait_for(lambda: post(url, "flow_runs/filter", ours)[0]["state_type"] == "RUNNING", 300)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    _, _, after = (home / "said.txt").read_text().rpartition("SIGTERM received")
    assert "Traceback" not in after
    assert after.endswith("\nstopped; a suite that was under way goes on with `evolora retry`\n")
    assert known_server(home) is None
    with pytest.raises(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
        pass


def test_an_address_that_a_killed_server_left_is_not_used(
    prefect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    (tmp_path / "prefect").mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for pid, found in ((ended.pid, None), (os.getpid(), prefect_server)):  # another home's server answers there
        (tmp_path / ADDRESS).write_text(json.dumps({"url": prefect_server, "pid": pid, "started": now()}))
        assert known_server(tmp_path) == found
    (tmp_path / ADDRESS).write_text(json.dumps({"url": prefect_server}))
    assert known_server(tmp_path) is None


def test_a_server_that_was_joined_is_found_from_another_shell(
    prefect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    with shared_prefect(tmp_path):
        monkeypatch.delenv("PREFECT_API_URL")  # which the other shell does not have
        assert known_server(tmp_path) == prefect_server
    assert not (tmp_path / ADDRESS).exists()


class Healthy(BaseHTTPRequestHandler):
    """Of a server that answers, though it wants to know first who asks."""

    def do_GET(self) -> None:
        self.send_error(401)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("serving", "error", "words"),
    [
        (shared_prefect, ExceptionGroup("of a runner", [RuntimeError("Service.")]), "start `evolora serve` again"),
        (embedded_prefect, httpx.ConnectError("All connection attempts failed"), "what is made is kept"),
        (embedded_prefect, RuntimeError("Failed to reach API"), "what is made is kept"),
    ],
)
def test_a_server_that_is_another_s_and_ends_is_named(
    serving: Any, error: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = HTTPServer(("127.0.0.1", 0), Healthy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{server.server_port}/api")
    with pytest.raises(StageError, match=f"/api answers no more; {words}"), serving(tmp_path):
        server.shutdown()
        server.server_close()
        raise error


@pytest.mark.parametrize("serving", [shared_prefect, embedded_prefect])
def test_a_server_that_does_not_answer_is_named_at_once(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")  # nobody listens there
    words = "^PREFECT_API_URL: http://127.0.0.1:9/api does not answer; start"
    with pytest.raises(StageError, match=words), serving(tmp_path):
        raise AssertionError("it began")


def test_our_own_server_is_reached_past_a_proxy(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert _healthy(prefect_server)


def test_nights_that_nobody_served_are_not_made_up_for(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SyncPrefectClient.read_flow_runs
    monkeypatch.setattr(SyncPrefectClient, "read_flow_runs", partialmethod(whole, limit=1))  # more than one page
    with temporary_settings({PREFECT_API_URL: prefect_server}), get_client(sync_client=True) as client:
        (own,) = [one for one in deployments(nightly=True) if one.name == "benchmark"]
        deployment: Any = own.apply()
        client.create_flow_run_from_deployment(deployment)  # by a person, and waiting for a server
        first, last = (datetime.now(UTC) + timedelta(days=days) for days in (-3, 1))
        nights = {"start_time": first.isoformat(), "end_time": last.isoformat(), "min_runs": 3}
        post(prefect_server, f"deployments/{deployment}/schedule", nights)

        def planned() -> list[tuple[bool, bool]]:
            """Of each run, whether a schedule made it, and whether its time has passed."""
            runs = post(prefect_server, "flow_runs/filter", {"deployments": {"id": {"any_": [str(deployment)]}}})
            times = [datetime.fromisoformat(run["expected_start_time"]) for run in runs]
            return [(run["auto_scheduled"], time < datetime.now(UTC)) for run, time in zip(runs, times, strict=True)]

        before = planned()
        assert (True, True) in before
        forget_missed()
        assert sorted(planned()) == sorted(set(before) - {(True, True)})


def test_a_fault_of_another_kind_is_not_blamed_on_the_server(
    prefect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    with pytest.raises(ZeroDivisionError), shared_prefect(tmp_path):
        raise ZeroDivisionError
