"""Prefect's task runner of suites. `stage.submit(…)` gives a future at once; what is passed on to other stages as a
future is an edge of the run graph.

Prefect's own process pool starts what was submitted first, whether or not its inputs are there, and gives up every
stage when one worker is killed. This one starts, of the stages whose inputs are there, the one submitted first; tries a
stage once more whose worker was killed; and reuses in this process what was made before. It has no thread: stages are
started, and their ends noticed, while the flow waits for any of them.
"""

import logging
import multiprocessing
import platform
import queue
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self
from uuid import UUID, uuid4

from prefect.client.schemas.objects import RunInput, State
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture, PrefectTaskRunFuture
from prefect.states import Failed
from prefect.task_runners import TaskRunner
from prefect.utilities.collections import visit_collection
from prefect.utilities.engine import collect_task_run_inputs_sync, resolve_inputs_sync

from evolora_core.engine.home import home_path
from evolora_core.engine.run_index import Entry, alive, now, read_entry
from evolora_core.engine.stage import StageRequest, StageResult
from evolora_core.errors import StageError
from flows._workers import Worker, Workers, lost
from tasks.stage import StageTask, enter_failed, reason, request_of, reuse, stands

log = logging.getLogger("evolora_core.stages")

LISTEN_SECONDS = 10.0  # between looks at workers that say nothing
KILLED = "its process was killed, by a person or because memory ran out (fewer `processes` need less)"
SILENT = "its worker lost Prefect's server, or Prefect's engine failed"


class StageFuture(PrefectTaskRunFuture[StageResult]):
    """A stage that was submitted. Whoever waits for it runs what has to be run before it."""

    def __init__(self, runner: "StageRunner", task: StageTask, parameters: dict[str, Any], after: list[Any]) -> None:
        super().__init__(uuid4())  # until it starts: then the task run's own
        self.runner, self.task, self.parameters, self.after = runner, task, parameters, after
        self.upstream = _futures([parameters, after])
        self.reused = False  # made before
        self.killed = 0  # workers that were lost to it
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether it ended, in whatever way."""
        return self._final_state is not None

    @property
    def ready(self) -> bool:
        """Whether all that it needs has ended."""
        return all(future.done for future in self.upstream)

    def end(self, state: State[StageResult]) -> None:
        """Note how it ended."""
        self._final_state = state
        if state.state_details.task_run_id:
            self.started_as(state.state_details.task_run_id)

    def fail(self, error: BaseException) -> None:
        """Note that it failed outside of Prefect's engine."""
        self._error = error
        self.end(Failed(message=reason(error)))

    def started_as(self, task_run_id: UUID) -> None:
        """Note its task run."""
        self._task_run_id = task_run_id

    def wait(self, timeout: float | None = None) -> None:
        """Run stages until this one has ended; `timeout` is not heard, as a stage is not interrupted."""
        if not self.done:
            for _ in self.runner.completed():
                if self.done:
                    return

    def result(self, timeout: float | None = None, raise_on_failure: bool = True) -> StageResult:
        """What the stage left. Raises what it raised."""
        self.wait()
        assert self._final_state is not None
        if self._error is not None:
            raise self._error
        return self._final_state.result(raise_on_failure=raise_on_failure)  # type: ignore[return-value]  # Prefect's exception, where none is to be raised

    def add_done_callback(self, fn: Any) -> None:
        """Not supported: ask `StageRunner.completed`."""
        raise NotImplementedError("iterate over StageRunner.completed() instead")


class StageRunner(TaskRunner[StageFuture]):
    """Prefect makes one for each flow run, before the suite is read; `working` then says where stages run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._workers: Workers | None = None
        self._waiting: list[StageFuture] = []
        self._running: dict[StageFuture, tuple[Worker, PrefectFuture[Any], StageRequest]] = {}
        self._ended: queue.SimpleQueue[StageFuture] = queue.SimpleQueue()

    def duplicate(self) -> Self:
        """A new one."""
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        """Workers get the flow's context, and with it a runner that has nothing to do."""
        return type(self), ()

    @contextmanager
    def working(self, workers: Workers) -> Iterator[Self]:
        """Stages that are submitted inside run on `workers`, which are ended after it."""
        self._workers = workers
        try:
            yield self
        except BaseException as error:
            workers.abandon()
            for _, _, request in self._running.values():
                _mark_failed(request, reason(error))
            raise
        workers.close()

    def submit(  # type: ignore[override]  # of stages only
        self,
        task: StageTask,
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[RunInput]] | None = None,
    ) -> StageFuture:
        """Line a stage up; among those that could start, the one that was submitted first does."""
        future = StageFuture(self, task, parameters, list(wait_for or []))
        self._waiting.append(future)
        return future

    def completed(self) -> Iterator[StageFuture]:
        """Run all that was submitted, and hand on each future when its stage has ended, in whatever way."""
        assert self._workers is not None, "StageRunner: say where to run first, by `working`"
        while self._waiting or self._running:
            ready = next((future for future in self._waiting if future.ready), None)
            if ready and len(self._running) < self._workers.processes:
                self._waiting.remove(ready)
                self._start(ready, self._workers)
                if ready.done:
                    yield ready
            elif (ended := self._next()) and self._collect(ended, self._workers):
                yield ended

    def _next(self) -> StageFuture | None:
        """The next stage of a worker that ended; None if there is none yet."""
        try:
            return self._ended.get(timeout=LISTEN_SECONDS)
        except queue.Empty:
            return next((future for future, (worker, *_) in self._running.items() if lost(worker)), None)

    def _start(self, future: StageFuture, workers: Workers) -> None:
        """Let a stage run; it is over at once if it was made before, cannot run, or runs in this process. What goes
        wrong here, as where a disk fails, ends this stage alone.
        """
        try:
            self._begin(future, workers)
        except Exception as error:
            future.fail(error)

    def _begin(self, future: StageFuture, workers: Workers) -> None:
        if not all(upstream.state.is_completed() for upstream in future.upstream):
            future.end(_call(future, future.task))  # Prefect says which of them failed
            return
        known = resolve_inputs_sync(future.parameters)
        request = request_of(future.task, known)
        if stands(request):
            future.reused = True
            state = _call(future, future.task)  # a hit of Prefect's cache, so that its record is complete
            reuse(request)
            future.end(state)
            return
        task = future.task.with_options(refresh_cache=True)  # what is not whole is no hit, whatever Prefect remembers
        if workers.here:
            future.end(_call(future, task))
            return
        edges: dict[str, set[RunInput]] = {
            role: {*collect_task_run_inputs_sync(value)} for role, value in future.parameters.items()
        }
        # In a worker Prefect knows edges of parameters only, so what comes before stands under the last of them.
        edges[list(edges)[-1]] |= collect_task_run_inputs_sync(future.after)
        worker, running = workers.submit(task, known, edges)
        future.started_as(running.task_run_id)
        self._running[future] = worker, running, request
        running.add_done_callback(lambda _: self._ended.put(future))

    def _collect(self, future: StageFuture, workers: Workers) -> bool:
        """Note how a stage in a worker ended; whether it did, and is not tried once more."""
        worker, running, request = self._running.pop(future)
        silent = lost(worker) and not running.wrapped_future.done()  # type: ignore[attr-defined]  # only processes are lost
        try:
            if silent:
                raise BrokenProcessPool
            running.wait()
            _refuse_another(request, running.state)
        except BrokenProcessPool:
            error = StageError(SILENT if silent else KILLED)
            workers.dismiss(worker)
            _mark_failed(request, reason(error))
            future.killed += 1
            if future.killed == 1:
                log.warning("warning: %s: %s; tried once more", request.label, error)
                self._waiting.insert(0, future)
                return False
            future.fail(error)
        except Exception as error:
            workers.release(worker)
            _mark_failed(request, reason(error))
            future.fail(error)
        else:
            workers.release(worker)
            future.end(running.state)
        return True


def stage_runner() -> StageRunner:
    """The runner of the flow that calls this."""
    context = FlowRunContext.get()
    assert context is not None and isinstance(context.task_runner, StageRunner), "not in a flow of stages"
    return context.task_runner


def _call(future: StageFuture, task: StageTask) -> State[StageResult]:
    """Run a stage in this process."""
    state: State[StageResult] = task(**future.parameters, wait_for=future.after, return_state=True)
    if context := FlowRunContext.get():
        # Prefect takes any object that it saw in a result, a name of an arm even, for a need of whoever is given it.
        context.run_results.clear()
    return state


def _futures(found: Any) -> list[StageFuture]:
    """All futures in what a stage is given."""
    futures: list[StageFuture] = []
    visit_collection(
        found, visit_fn=lambda it: futures.append(it) if isinstance(it, StageFuture) else None, return_data=False
    )
    return futures


def _refuse_another(request: StageRequest, state: State[StageResult]) -> None:
    """A worker that outlives suites, on a cluster, may have imported the code as it was before an edit."""
    if not state.is_completed():
        return
    made: StageResult = state.result()
    if made.identity != request.identity:
        raise StageError(
            f"{request.label}: its worker runs other code than this flow; start the cluster's workers anew"
        )


def _of_another(entry: Entry) -> bool:
    """Whether a process of this machine that is no worker of ours is at it."""
    if entry.pid is None or entry.node != platform.node():
        return False
    ours = {process.pid for process in multiprocessing.active_children()}
    return entry.pid not in ours and alive(entry.pid, entry.started)


def _mark_failed(request: StageRequest, why: str) -> None:
    """A worker that was killed could not say so in the index itself. Where another process makes the stage, for which
    ours only waited, its entry is left alone.
    """
    entry = read_entry(home_path(), request.suite, request.condition, request.seed, request.stage)
    if entry and entry.state == "running" and not _of_another(entry):
        enter_failed(replace(entry, state="failed", reason=why, finished=now()))
