"""Where stages run: worker processes of this machine, or a cluster."""

import multiprocessing
import threading
from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import RunInput
from prefect.futures import PrefectFuture
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from evolora_core.searches.base import Experiment
from flows._cluster import cluster_runner
from tasks._worker import start_worker
from tasks.stage import StageTask

Worker = TaskRunner[Any]


class Workers:
    """Up to `processes` workers of `threads` torch threads each, hired when a stage first needs one.

    Every worker has a Prefect task runner to itself: Python gives up all workers of a runner when one is killed. With
    one process everything runs in this one, which has no workers then.
    """

    def __init__(self, processes: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self.here = processes == 1
        self._open: list[Worker] = []
        self._idle: list[Worker] = []
        if self.here:
            start_worker(threads)

    def submit(
        self, task: StageTask, parameters: dict[str, Any], dependencies: Mapping[str, set[RunInput]]
    ) -> tuple[Worker, PrefectFuture[Any]]:
        """Start a stage in a worker, which is busy until it is given to `release` or `dismiss`."""
        while self._idle and lost(self._idle[-1]):  # killed while it had nothing to do
            self.dismiss(self._idle.pop())
        worker = self._idle.pop() if self._idle else self._hire()
        return worker, worker.submit(task, parameters, dependencies=dict(dependencies))

    def release(self, worker: Worker) -> None:
        """The worker is done and may be used again."""
        self._idle.append(worker)

    def dismiss(self, worker: Worker) -> None:
        """End a worker, which may be dead."""
        self._open = [other for other in self._open if other is not worker]  # to Prefect, runners of a size are equal
        if lost(worker):  # nobody would end its process, and Python waits for it at its own end
            for process in [*_executor(worker)._processes.values()]:
                process.terminate()
        messages = getattr(worker, "_subprocess_message_queue", None)
        worker.__exit__(None, None, None)
        if messages is not None:
            messages.cancel_join_thread()  # one that died while it wrote keeps its lock, for which ours would wait

    def close(self) -> None:
        """End all workers; who is busy is waited for."""
        while self._open:
            self.dismiss(self._open[-1])

    def abandon(self) -> None:
        """End all workers without waiting for their stages, which go on from their last commits next time."""
        for process in multiprocessing.active_children():
            process.terminate()
        self.close()

    def _hire(self) -> Worker:
        worker = ProcessPoolTaskRunner(1, initializer=start_worker, initargs=(self.threads,))
        self._open.append(worker.__enter__())
        return worker


class Cluster(Workers):
    """A cluster: one Prefect task runner for all, which looks after its own workers."""

    def __init__(self, processes: int, threads: int, runner: Worker) -> None:
        super().__init__(processes, threads)
        self.here = False
        self._runner = runner

    def submit(
        self, task: StageTask, parameters: dict[str, Any], dependencies: Mapping[str, set[RunInput]]
    ) -> tuple[Worker, PrefectFuture[Any]]:
        """Start a stage somewhere."""
        if not self._open:
            self._open.append(self._runner.__enter__())
        return self._runner, self._runner.submit(task, parameters, dependencies=dict(dependencies))

    def release(self, worker: Worker) -> None:
        """The cluster knows."""

    def abandon(self) -> None:
        """The cluster's own end is its workers' too."""
        self.close()


def _executor(worker: Worker) -> Any:
    """Python's own, of which neither it nor Prefect tells more."""
    return getattr(worker, "_executor", None)


def lost(worker: Worker) -> bool:
    """Whether a worker process of this machine will never say how its stage ended.

    Prefect's engine leaves a task run that it cannot report by SystemExit, which ends the thread that listens to the
    worker: the stage's future then waits for ever.
    """
    listener = getattr(_executor(worker), "_executor_manager_thread", None)
    return isinstance(listener, threading.Thread) and not listener.is_alive()


def workers_of(config: Experiment) -> Workers:
    """The workers that a suite asks for."""
    if config.workers == "processes":
        return Workers(config.processes, config.threads)
    return Cluster(config.processes, config.threads, cluster_runner(config.workers, config.processes))
