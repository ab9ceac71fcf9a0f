"""Any stage as a Prefect task: run once, cached by identity, tried again after faults, entered in the index."""

import inspect
import logging
import os
import platform
import time
from collections.abc import Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

from prefect import Task, task
from prefect.cache_policies import CachePolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.exceptions import TerminationSignal
from safetensors import SafetensorError

from evolora_core.engine import artifacts
from evolora_core.engine.home import home_path
from evolora_core.engine.identity import refuse_changed_code
from evolora_core.engine.progress import Progress
from evolora_core.engine.run_index import Entry, now, write_entry
from evolora_core.engine.run_index import State as RunState
from evolora_core.engine.stage import Made, Relative, Stage, StageRequest, StageResult, Work
from evolora_core.errors import EvoloraError, Passing, StageError
from tasks._accelerator import accelerator
from tasks._log import run_log
from tasks._progress import progress

log = logging.getLogger("evolora_core.stages")

SCRATCH = (".work", ".answered")  # what a killed stage goes on from: no part of an artefact, and no family's name
INTERRUPTED = "interrupted; run the suite again to resume"
StageTask = Task[..., StageResult]


def request_of(task: StageTask, parameters: Mapping[str, Any]) -> StageRequest:
    """What a stage task is to do, given its parameters, all of them results."""
    request: StageRequest = inspect.unwrap(task.fn)(**parameters)
    return request


class ByIdentity(CachePolicy):
    """Prefect's cache key of a stage is the place of its artefact. Whether that is whole is asked before: see
    `flows/_runner.py`.
    """

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        """The artefact's folder, as a file name."""
        return request_of(task_ctx.task, inputs).folder.replace("/", ".")


@cache
def task_of(stage: Stage) -> StageTask:
    """The Prefect task of a stage. Its parameters are those of the stage's request: the suite, what the stage is of,
    and the results that it needs, as values or as futures. Cached by identity, retried after faults only.
    """

    @wraps(stage.request)
    def run(*given: Any, **needs: Any) -> StageResult:
        return perform(stage.request(*given, **needs), stage)

    def run_name(*, parameters: dict[str, Any]) -> str:
        return stage.request(**parameters).label

    return task(
        name=stage.name,
        task_run_name=run_name,  # type: ignore[arg-type]  # the protocol wants a method that Prefect does not call
        cache_policy=ByIdentity(),
        persist_result=True,
        result_serializer="json",
        retries=2,
        retry_delay_seconds=[2, 15],
        retry_jitter_factor=0.5,
        retry_condition_fn=is_fault,
    )(run)


def is_fault(task: Task[..., Any], run: TaskRun, state: State) -> bool:
    """Whether trying again can help: a disk, a lock or a connection, not a wrong configuration or a wrong program."""
    try:
        state.result()
    except EvoloraError as error:
        return isinstance(error, Passing)
    except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError):
        return False  # still so the next time
    except BaseException as error:
        return _is_of_the_machine(error)
    return False


def _is_of_the_machine(error: BaseException) -> bool:
    """Whether a disk or a connection failed. safetensors has an error of its own for what a disk refuses, which names
    its kind in two ways, by version.
    """
    of_a_file = isinstance(error, SafetensorError) and ("I/O error" in str(error) or "IoError" in str(error))
    return isinstance(error, OSError) or of_a_file


def stands(request: StageRequest) -> bool:
    """Whether the artefact is there and whole."""
    return artifacts.damage(home_path() / request.folder) is None


def perform(request: StageRequest, stage: Stage) -> StageResult:
    """Run a stage unless its artefact stands already, in this suite or in another one, whose is copied then; write
    index and manifest. Two processes that want the same stage take turns, and so do two that want the same
    accelerator.
    """
    home = home_path()
    folder = home / request.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    run = folder.parent.parent
    device = request.host.device if request.host else "cpu"
    with (
        run_log(run, request.stage, request.label) as warnings,
        artifacts.turn(folder),
    ):
        alike = sorted(home.glob(f"runs/*/{folder.relative_to(folder.parents[2]).as_posix()}"))
        if artifacts.damage(folder) is None or artifacts.adopt(folder, alike):
            artifacts.forget_partial(folder)
            return reuse(request)
        with accelerator(device):
            manifest = _made(request, stage, warnings)
    write_entry(home, request.suite, _finished(request, manifest, "done"))
    return _result(request, manifest)


def _made(request: StageRequest, stage: Stage, warnings: list[str]) -> dict[str, Any]:
    """Compute a stage; its manifest. The index says that it runs, and whether it failed."""
    home = home_path()
    folder = home / request.folder
    started, clock = now(), time.perf_counter()
    running = request.entry("running", started=started, pid=os.getpid(), node=platform.node())
    write_entry(home, request.suite, running)
    try:
        if request.refusal:
            raise StageError(request.refusal)
        partial = artifacts.partial_folder(folder)
        with progress(request.label) as report:
            log.info("started")
            refuse_changed_code(request.identity_document)
            made: Made[Any] = stage.body(_work(request, partial, report))
            refuse_changed_code(request.identity_document)
        return artifacts.commit(
            folder,
            {
                "stage": request.stage,
                "condition": request.condition,
                "seed": request.seed,
                "identity": request.identity,
                "lineage": request.lineage,
                "identity_document": request.identity_document,
                "started": started,
                "finished": now(),
                "seconds": round(time.perf_counter() - clock, 3),
                "flops": made.flops,
                "summary": made.facts.model_dump(mode="json"),
                "warnings": warnings,
            },
            SCRATCH,
        )
    except BaseException as error:
        enter_failed(request.entry("failed", started=started, finished=now(), reason=reason(error)))
        if _is_of_the_machine(error):
            log.error("failed: %s", reason(error))
        elif not isinstance(error, EvoloraError):
            log.exception("failed")
        raise


def reuse(request: StageRequest) -> StageResult:
    """Hand on an artefact that stands, and say so in the index."""
    home = home_path()
    manifest = artifacts.read_manifest(home / request.folder)
    if manifest is None:
        raise StageError(f"{home / request.folder}: it has no manifest; run the suite again")
    write_entry(home, request.suite, _finished(request, manifest, "cached"))
    return _result(request, manifest)


def enter_failed(entry: Entry) -> None:
    """Say in the index that a stage failed. A disk that does not take it gets a warning; the stage keeps its reason."""
    try:
        write_entry(home_path(), entry.suite_id, entry)
    except OSError as error:
        log.warning("warning: %s: the index cannot be written (%s)", entry.name, error.strerror)


def reason(error: BaseException) -> str:
    """One line about a failure."""
    if isinstance(error, KeyboardInterrupt | TerminationSignal | SystemExit):  # the last where Prefect's server is gone
        return INTERRUPTED
    text = " ".join(str(error).split())
    return text if isinstance(error, EvoloraError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def _work(request: StageRequest, partial: Path, report: Progress) -> Work[Any]:
    return Work(
        config=request.config,
        horizon=request.horizon,
        host=request.host,
        seed=request.seed,
        inputs={role: result.path for role, result in request.inputs.items()},
        results=request.inputs,
        folder=partial,
        relatives=_relatives(request) if request.horizon else [],
        report=report,
    )


def _relatives(request: StageRequest) -> Sequence[Relative]:
    found = []
    for folder in sorted((home_path() / request.folder).parent.iterdir()):
        manifest = artifacts.read_manifest(folder)
        if manifest is None or manifest["lineage"] != request.lineage or manifest["identity"] == request.identity:
            continue
        if artifacts.damage(folder) is None:
            found.append(Relative(folder, manifest["identity_document"]["horizon"]))
    return found


def _finished(request: StageRequest, manifest: dict[str, Any], state: RunState) -> Entry:
    known = {key: manifest[key] for key in ("seconds", "flops", "started", "finished")}
    return request.entry(state, reason="; ".join(manifest.get("warnings", [])), **known)


def _result(request: StageRequest, manifest: dict[str, Any]) -> StageResult:
    return StageResult(
        stage=request.stage,
        condition=request.condition,
        seed=request.seed,
        folder=request.folder,
        identity=request.identity,
        seconds=manifest["seconds"],
        flops=manifest["flops"],
        summary=manifest["summary"],
    )
