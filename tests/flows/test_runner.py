"""A plan of stages on real Prefect: order, reuse, failures, damage, killed workers."""

import io
import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import TaskRun
from prefect.runtime import flow_run
from prefect.states import Completed
from prefect.task_runners import TaskRunner
from toy_stages import count, executions, toy_request, toy_suite

from evolora_core.engine import artifacts
from evolora_core.engine.run_index import entries, now, read_entry, write_entry
from evolora_core.engine.stage import StageResult, Step
from evolora_core.errors import StageError
from flows._runner import StageRunner, _mark_failed, _refuse_another, stage_runner
from flows._steps import Outcome, follow, submit
from flows._workers import Workers, _executor, lost
from tasks import _progress
from tasks._log import Console
from tasks.stage import INTERRUPTED, stands, task_of

pytestmark = pytest.mark.usefixtures("prefect_server")


@dataclass
class Followed(Outcome):
    """What became of a plan, and of which flow run it was."""

    flow_run: str = ""


def run(plan: list[Step], processes: int = 1) -> tuple[Followed, list[str]]:
    """What became of a plan, and the labels of its results in the order in which they came."""
    order: list[str] = []
    tasks: TaskRunner[Any] = StageRunner()

    @flow(name="toy", task_runner=tasks)
    def toy() -> Followed:
        outcome = Followed(len(plan))
        outcome.flow_run = flow_run.id
        with stage_runner().working(Workers(processes, 1)) as runner:
            follow(runner, submit(plan), outcome, lambda future: order.append(future.result().label))
        return outcome

    return toy(), order


def step(name: str, seed: int, needs: Sequence[Step] = (), **config: Any) -> Step:
    """A toy stage called `name`, with the results it needs as inputs."""
    return Step(name, count, {"seed": seed, "config": config}, {"inputs": needs})


def states(home: Path) -> dict[int, str]:
    """State of each seed's stage in the index."""
    return {entry.seed: entry.state for entry in entries(home, toy_suite().id)}


def test_stages_wait_for_their_inputs_and_hand_them_on(home: Path) -> None:
    a, b = step("a", 1), step("b", 2)
    outcome, order = run([a, b, step("sum", 10, (a, b)), step("c", 3)])
    assert order == ["count s1", "count s2", "count s10", "count s3"]
    assert outcome.results["sum"].summary["number"] == 13
    assert (home / outcome.results["sum"].folder / "number.txt").read_text() == "13"
    assert states(home) == {1: "done", 2: "done", 10: "done", 3: "done"}


@pytest.mark.parametrize(("lives", "state"), [(True, "running"), (False, "failed")])
def test_an_interrupt_leaves_what_another_process_makes_alone(home: Path, lives: bool, state: str) -> None:
    request = toy_request(1, {})
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        if not lives:
            other.communicate(b"\n")
        running = request.entry("running", started=now(), pid=other.pid, node=platform.node())
        write_entry(home, request.suite, running)
        _mark_failed(request, INTERRUPTED)
        entry = read_entry(home, request.suite, request.condition, request.seed, request.stage)
        assert entry is not None and entry.state == state
        if lives:
            other.communicate(b"\n")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_to_which_nobody_listens_is_ended() -> None:
    workers = Workers(2, 1)
    worker: Any = workers._hire()
    executor = worker._executor
    executor.submit(os.getpid).add_done_callback(lambda _: sys.exit())  # as Prefect's engine leaves it
    for _ in range(600):
        if lost(worker):
            break
        time.sleep(0.1)
    (process,) = executor._processes.values()
    assert lost(worker) and process.is_alive()
    workers.dismiss(worker)
    process.join(30)
    assert not process.is_alive()


def test_all_workers_end_with_the_suite() -> None:
    workers = Workers(3, 1)
    hired: list[Any] = [workers._hire() for _ in range(3)]
    workers.dismiss(hired[1])
    assert [worker._executor is None for worker in hired] == [False, True, False]
    workers.close()
    assert [worker._executor for worker in hired] == [None] * 3


def test_a_worker_that_died_while_it_wrote_keeps_nobody() -> None:
    code = """
        import os
        from flows._workers import Workers
        workers = Workers(2, 1)
        worker = workers._hire()
        worker._executor.submit(os.getpid).result()
        worker._subprocess_message_queue._wlock.acquire()  # as it is left by a process that is killed then
        workers.abandon()
    """
    python = [sys.executable, "-c", "if __name__ == '__main__':\n" + textwrap.indent(textwrap.dedent(code), " ")]
    assert subprocess.run(python, timeout=120).returncode == 0


def test_a_second_run_reuses_everything(home: Path, tmp_path: Path) -> None:
    plan = [step("a", 1, log=str(tmp_path / "log"))]
    first, _ = run(plan)
    second, _ = run(plan)
    assert executions(tmp_path / "log") == 1
    assert first.results == second.results
    assert states(home) == {1: "cached"}


def test_another_configuration_is_another_artefact(home: Path, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    one, _ = run([step("a", 1, log=log)])
    two, _ = run([step("a", 1, log=log, other=1)])
    assert executions(tmp_path / "log") == 2
    assert one.results["a"].folder != two.results["a"].folder


@pytest.mark.parametrize("harm", ["change a file", "remove the folder"])
def test_a_damaged_artefact_is_made_again_whatever_prefect_remembers(home: Path, tmp_path: Path, harm: str) -> None:
    plan = [step("a", 1, log=str(tmp_path / "log"))]
    folder = home / run(plan)[0].results["a"].folder
    if harm == "change a file":
        (folder / "number.txt").write_text("7")
    else:
        shutil.rmtree(folder)
    outcome, _ = run(plan)
    assert executions(tmp_path / "log") == 2
    assert (folder / "number.txt").read_text() == "1"
    assert not outcome.failures


def test_what_prefect_forgot_is_not_computed_again(home: Path, tmp_path: Path) -> None:
    plan = [step("a", 1, log=str(tmp_path / "log"))]
    run(plan)
    shutil.rmtree(os.environ["PREFECT_RESULTS_LOCAL_STORAGE_PATH"])
    run(plan)
    assert executions(tmp_path / "log") == 1


def test_a_failure_takes_only_those_with_it_that_need_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = step("bad", 1, act="fail")
    others = [step("after", 2, (bad,)), step("good", 3), step("bug", 4, act="bug"), step("wrong", 5, act="no request")]
    outcome, _ = run([bad, *others])
    assert outcome.failures == {
        "bad": "toy: asked to fail",
        "bug": "ZeroDivisionError: a bug",
        "wrong": "toy: it cannot be asked for",
    }
    assert list(outcome.results) == ["good"]
    assert states(home) == {1: "failed", 3: "done", 4: "failed"}
    failed = {entry.seed: entry.reason for entry in entries(home, toy_suite().id)}
    assert failed[1] == "toy: asked to fail"
    assert not list(home.glob("runs/toy/shared-s1/count/*/manifest.json"))


def test_a_disk_that_fails_ends_the_stage_that_asks_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(request: Any) -> bool:
        if request.seed == 1:
            raise OSError(116, "Stale file handle")
        return stands(request)

    monkeypatch.setattr("flows._runner.stands", stale)
    bad = step("bad", 1)
    outcome, _ = run([bad, step("after", 2, (bad,)), step("good", 3)])
    assert list(outcome.results) == ["good"] and "Stale file handle" in outcome.failures["bad"]


def check_needs(outcome: Followed, child: str, parents: set[str]) -> None:
    """They are edges of Prefect's run graph."""
    of_this_flow = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(outcome.flow_run)]))
    named: dict[str, TaskRun] = {}
    with get_client(sync_client=True) as client:
        while not {child, *parents} <= named.keys() or not named[child].task_inputs:  # the server hears by events
            time.sleep(0.2)
            named = {task_run.name: task_run for task_run in client.read_task_runs(flow_run_filter=of_this_flow)}
    needs: list[Any] = named[child].task_inputs["inputs"]
    assert {found.id for found in needs} == {named[name].id for name in parents}


def test_every_need_is_an_edge_of_the_run_graph(home: Path) -> None:
    a, b = step("a", 1), step("b", 2)
    outcome, _ = run([a, b, step("sum", 10, (a, b))])
    check_needs(outcome, "count s10", {"count s1", "count s2"})


def test_each_run_has_a_log_with_levels(home: Path) -> None:
    run([step("bad", 1, act="fail"), step("bug", 1, act="bug", other=1)])
    lines = [json.loads(line) for line in (home / "runs/toy/shared-s1/log.jsonl").read_text().splitlines()]
    assert [(line["level"], line["stage"], line["message"]) for line in lines] == [
        ("INFO", "count", "started"),
        ("ERROR", "count", "toy: asked to fail"),
        ("INFO", "count", "started"),
        ("ERROR", "count", "failed"),
    ]
    assert "ZeroDivisionError: a bug" in lines[3]["traceback"]


def test_a_warning_marks_the_stage(home: Path) -> None:
    outcome, _ = run([step("a", 1, act="warn")])
    (entry,) = entries(home, toy_suite().id)
    assert (entry.state, entry.reason) == ("done", "half as many")
    manifest = artifacts.read_manifest(outcome.results["a"].path)
    assert manifest is not None and manifest["warnings"] == ["half as many"]


def test_lines_on_the_console_say_whose_they_are(home: Path) -> None:
    console, logger = Console(), logging.getLogger("evolora_core")
    console.setStream(printed := io.StringIO())
    logger.addHandler(console)
    run([step("a", 1, act="warn"), step("b", 2)])
    logger.removeHandler(console)
    lines = [line.split(" ", 1)[1] for line in printed.getvalue().splitlines()]
    assert [line for line in lines if "done" not in line] == [
        "count s1: started",
        "count s1: half as many",
        "count s2: started",
    ]
    assert any(line.startswith("a done in") for line in lines)


def test_progress_is_shown_in_prefect(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "PUBLISH_SECONDS", 0)
    run([step("a", 77)])
    with get_client(sync_client=True) as client:
        shown = {artifact.key: artifact.data for artifact in client.read_artifacts()}
    assert shown["progress-count-s77"] == 100.0


def test_a_server_that_takes_no_progress_is_asked_once_a_stage(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unreachable(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise ConnectionError("nobody listens")

    monkeypatch.setattr("prefect.artifacts.create_progress_artifact", unreachable)
    monkeypatch.setattr(_progress, "PUBLISH_SECONDS", 0)
    outcome, _ = run([step("a", 78)])
    assert "a" in outcome.results and asked == [1]


def test_only_faults_are_tried_again(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_of(count), "retry_delay_seconds", [0.1, 0.1])  # seconds; 2 and 15 otherwise
    plan = [step("fault", 1, act="fault once", log=str(tmp_path / "fault"))]
    plan += [step("fail", 2, act="fail", log=str(tmp_path / "fail"))]
    plan += [step("broken", 3, act="fault always", log=str(tmp_path / "broken"))]
    outcome, _ = run(plan)
    assert outcome.results["fault"].summary["number"] == 1
    assert executions(tmp_path / "fault") == 2
    assert executions(tmp_path / "fail") == 1
    assert executions(tmp_path / "broken") == 3 and "the disk is broken" in outcome.failures["broken"]
    (fault,) = [
        json.loads(line) for line in (home / "runs/toy/shared-s1/log.jsonl").read_text().splitlines() if "ERROR" in line
    ]
    assert fault["message"] == "failed: OSError: the disk hiccups" and "traceback" not in fault


def test_nobody_waits_for_the_stages_of_an_interrupted_run(home: Path, tmp_path: Path) -> None:
    long, release = tmp_path / "long", tmp_path / "release"
    plan = [
        step("long", 1, log=str(long), after={"log": str(release), "executions": 1}),
        step("short", 2, after={"log": str(long), "executions": 1}),
    ]

    tasks: TaskRunner[Any] = StageRunner()

    def interrupt(future: Any) -> None:
        raise KeyboardInterrupt

    @flow(name="toy", task_runner=tasks)
    def toy() -> None:
        with stage_runner().working(Workers(2, 1)) as runner:
            follow(runner, submit(plan), Outcome(2), interrupt)

    later = threading.Timer(30, release.write_text, ["at last"])  # so that the test ends if somebody does wait
    later.start()
    with pytest.raises(KeyboardInterrupt):
        toy()
    later.cancel()
    assert not release.exists()
    assert {entry.seed: entry.reason for entry in entries(home, toy_suite().id)}[1].startswith("interrupted")


def test_workers_that_are_killed_while_idle_cost_a_stage_none_of_its_two_tries(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks: TaskRunner[Any] = StageRunner()

    @flow(name="toy", task_runner=tasks)
    def toy() -> Outcome:
        outcome, workers = Outcome(1), Workers(2, 1)
        with stage_runner().working(workers) as runner:
            for worker in [workers._hire() for _ in range(2)]:
                executor = _executor(worker)
                executor.submit(os.getpid).result()
                (process,) = executor._processes.values()
                process.kill()
                while not lost(worker):
                    time.sleep(0.01)
                workers.release(worker)
            follow(runner, submit([step("a", 1, log=str(tmp_path / "a"))]), outcome, lambda future: None)
        return outcome

    outcome = toy()
    assert outcome.results["a"].summary["number"] == 1 and executions(tmp_path / "a") == 1
    assert "killed" not in caplog.text


def test_a_killed_worker_fails_its_stage_alone(home: Path, tmp_path: Path) -> None:
    killed, bystander = str(tmp_path / "killed"), str(tmp_path / "bystander")
    a, b = step("a", 2, log=bystander, after={"log": killed, "executions": 2}), step("b", 3)
    kill = step("kill", 1, act="kill", log=killed, after={"log": bystander, "executions": 1})
    outcome, _ = run([kill, a, b, step("sum", 4, (a, b))], processes=2)
    assert list(outcome.failures) == ["kill"]
    assert "its process was killed, by a person or because memory ran out" in outcome.failures["kill"]
    assert executions(tmp_path / "killed") == 2  # a fault of the machine is worth another try
    assert executions(tmp_path / "bystander") == 1
    assert outcome.results["sum"].summary["number"] == 9
    assert outcome.results["a"].summary["pid"] != os.getpid()
    assert states(home) == {1: "failed", 2: "done", 3: "done", 4: "done"}
    check_needs(outcome, "count s4", {"count s2", "count s3"})  # edges between workers, too


def test_the_result_of_a_worker_with_other_code_is_refused() -> None:
    request = toy_request(1, {})
    made = StageResult(
        stage="count",
        condition="shared",
        seed=1,
        folder=request.folder,
        identity=request.identity,
        seconds=1.0,
        flops=0,
        summary={},
    )
    _refuse_another(request, Completed(data=made))
    with pytest.raises(StageError, match="count s1: its worker runs other code than this flow"):
        _refuse_another(request, Completed(data=made.model_copy(update={"identity": "0"})))
