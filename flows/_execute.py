"""Runs a plan of stages: what stands is reused at once, the rest goes to a pool of processes as soon as its inputs
exist.

A stage that fails takes only those with it that need it. Knows nothing of what the stages are.
"""

import logging
import multiprocessing
import queue
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import Any

from prefect.futures import PrefectFuture
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from evolora_core.home import home_path
from evolora_core.run_index import now, read_entry, write_entry
from tasks._stage import StageRequest, StageResult, StageTask, reason, reuse, stands
from tasks._worker import start_worker

log = logging.getLogger("evolora_core.stages")

Results = dict[str, StageResult]


@dataclass(frozen=True)
class Step:
    """A stage in a plan. `request` is asked once the steps that it `needs` are done."""

    name: str
    task: StageTask
    request: Callable[[Results], StageRequest]
    needs: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What became of a plan: results and one-line reasons by step; a step in neither was not reached."""

    results: Results = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


Runner = TaskRunner[Any]


class Pool:
    """Where stages run: up to `processes` workers of `threads` torch threads each, hired when a stage first needs one.

    Every worker has a task runner to itself: Python gives up all workers of a runner when one is killed. With one
    process everything runs in this one, which has no workers then.
    """

    def __init__(self, processes: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self.here = processes == 1
        self._open: list[Runner] = []
        self._idle: list[Runner] = []
        self._prepared = False

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self.abandon()
        while self._open:
            self.dismiss(self._open[-1])

    def abandon(self) -> None:
        """End the workers without waiting for their stages, which go on from their last commits next time."""
        for worker in multiprocessing.active_children():
            worker.terminate()

    def submit(self, task: StageTask, request: StageRequest) -> "Running":
        """Start a stage in a worker, which is busy until it is given back by `release` or `dismiss`."""
        runner = self._idle.pop() if self._idle else self._hire()
        return Running(request, runner, runner.submit(task, {"request": request}))

    def release(self, runner: Runner) -> None:
        """The worker of `runner` is done and may be used again."""
        self._idle.append(runner)

    def dismiss(self, runner: Runner) -> None:
        """End a worker, which may be dead."""
        self._open.remove(runner)
        runner.__exit__(None, None, None)

    def call(self, task: StageTask, request: StageRequest) -> StageResult:
        """Run a stage here and now."""
        if not self._prepared:
            start_worker(self.threads)
            self._prepared = True
        result: StageResult = task(request)
        return result

    def _hire(self) -> Runner:
        runner = ProcessPoolTaskRunner(1, initializer=start_worker, initargs=(self.threads,))
        self._open.append(runner.__enter__())
        return runner


class ClusterPool(Pool):
    """Where stages run: a cluster with one runner for all, which looks after its own workers."""

    def __init__(self, processes: int, threads: int, runner: Runner) -> None:
        super().__init__(processes, threads)
        self.here = False
        self._runner = runner

    def submit(self, task: StageTask, request: StageRequest) -> "Running":
        """Start a stage somewhere."""
        if not self._open:
            self._open.append(self._runner.__enter__())
        return Running(request, self._runner, self._runner.submit(task, {"request": request}))

    def abandon(self) -> None:
        """The cluster's own end is its workers' too."""

    def release(self, runner: Runner) -> None:
        """The cluster knows."""

    def dismiss(self, runner: Runner) -> None:
        """End the cluster, if it is ours."""
        self._open.clear()
        runner.__exit__(None, None, None)


@dataclass(frozen=True)
class Running:
    """A stage in a worker."""

    request: StageRequest
    runner: Runner
    future: PrefectFuture[Any]


def execute(plan: Sequence[Step], pool: Pool, done: Callable[[StageResult], None]) -> Outcome:
    """Run the steps; of those that are ready the first in the plan goes first. `done` is called here with each
    result.
    """
    outcome = Outcome()
    steps = {step.name: step for step in plan}
    waiting = list(plan)
    retried: set[str] = set()
    reused: set[str] = set()
    running: dict[str, Running] = {}
    finished: queue.SimpleQueue[str] = queue.SimpleQueue()

    def start(step: Step) -> StageResult | None:
        """The result, if it can be had at once."""
        request = step.request(outcome.results)
        if stands(request):
            reused.add(step.name)
            step.task(request)  # a hit of Prefect's cache, so that its record is complete
            return reuse(request)
        task = step.task.with_options(refresh_cache=True)  # what is not whole is no hit, whatever Prefect remembers
        if pool.here:
            return pool.call(task, request)
        running[step.name] = pool.submit(task, request)
        running[step.name].future.add_done_callback(lambda _: finished.put(step.name))
        return None

    def collect(name: str) -> StageResult:
        stage = running.pop(name)
        try:
            result: StageResult = stage.future.result()
        except BaseException as error:
            _mark_failed(stage.request, reason(error))
            give_back = pool.dismiss if isinstance(error, BrokenProcessPool) else pool.release
            give_back(stage.runner)
            raise
        pool.release(stage.runner)
        return result

    def fail(name: str, error: Exception) -> None:
        outcome.failures[name] = reason(error)
        log.error("error: %s: %s", name, outcome.failures[name])

    while True:
        ready = [step for step in waiting if all(need in outcome.results for need in step.needs)]
        if ready and len(running) < pool.processes:
            waiting.remove(ready[0])
            name, action = ready[0].name, lambda step=ready[0]: start(step)
        elif running:
            name = finished.get()
            action = lambda name=name: collect(name)  # noqa: E731
        else:
            break
        try:
            if result := action():
                done(result)
                outcome.results[name] = result
                if name not in reused:
                    log.info("%s done in %.1f s (%d of %d)", name, result.seconds, len(outcome.results), len(steps))
        except BrokenProcessPool as error:  # its worker was killed, by the system when memory ran out, or by a person
            if name in retried:
                fail(name, error)
            else:
                log.warning("warning: %s: its process was killed; tried once more", name)
                retried.add(name)
                waiting.insert(0, steps[name])
        except Exception as error:  # one seed's fault must not stop the others
            fail(name, error)
    if reused:
        log.info("%d of %d stages were done before and are reused", len(reused), len(steps))
    return outcome


def _mark_failed(request: StageRequest, why: str) -> None:
    """A worker that was killed could not say so in the index itself."""
    home = home_path()
    entry = read_entry(home, request.suite_id, request.condition, request.seed, request.stage)
    if entry and entry.state == "running":
        write_entry(home, request.suite_id, replace(entry, state="failed", reason=why, finished=now()))
