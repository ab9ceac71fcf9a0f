"""What all stages share: the request and result that tasks hand on, and the one way a stage is run, cached, retried
and indexed.

A stage body sees the work it is given and nothing else: its part of the configuration, the folders of its inputs, its
seed and host. That is what its identity hashes, so it cannot depend on anything outside of it.
"""

import inspect
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from filelock import FileLock
from prefect import Task, task
from prefect.cache_policies import CachePolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from pydantic import BaseModel, ConfigDict

from evolora_core import artifacts
from evolora_core.config import SuiteConfig
from evolora_core.errors import EvoloraError, StageError, StoreError
from evolora_core.families.registry import modules_of
from evolora_core.home import home_path
from evolora_core.identity import digest, stage_identity
from evolora_core.progress import Progress
from evolora_core.run_index import Entry, SuiteId, now, write_entry
from evolora_core.run_index import State as RunState
from tasks._accelerator import accelerator
from tasks._log import run_log
from tasks._progress import progress

log = logging.getLogger("evolora_core.stages")

SCRATCH = ("work", "answered")  # folders with what a killed stage goes on from; no part of an artefact


def label(stage: str, condition: str, seed: int) -> str:
    """How people call a stage: `evolve ecology s2`, `datasets s0` if all conditions share it, `compare` of a suite."""
    if condition == "suite":
        return stage
    return f"{stage} s{seed}" if condition in ("shared", stage) else f"{stage} {condition} s{seed}"


class StageResult(BaseModel):
    """What a finished stage hands on: where it lies and who it is. Never tensors."""

    model_config = ConfigDict(frozen=True)

    stage: str
    condition: str
    seed: int
    folder: str  # relative to EVOLORA_HOME
    identity: str
    seconds: float
    flops: int
    summary: dict[str, Any]  # a few small facts that later stages or the user read

    @property
    def label(self) -> str:
        """How people call it."""
        return label(self.stage, self.condition, self.seed)

    @property
    def path(self) -> Path:
        """The folder, absolute. StageError if it is not whole."""
        folder = home_path() / self.folder
        artifacts.check(folder)
        return folder


class StageRequest(BaseModel):
    """One stage to run."""

    model_config = ConfigDict(frozen=True)

    suite: str
    stage: str
    condition: str
    seed: int
    config: dict[str, Any]
    horizon: dict[str, Any]  # how far to go, for a stage that can be extended; not part of what it resumes
    host: dict[str, Any] | None
    inputs: dict[str, StageResult]
    identity_document: dict[str, Any]
    lineage: str  # identity without the horizon
    identity: str
    refusal: str = ""  # why it is not to be made; what was made before is handed on all the same

    @property
    def label(self) -> str:
        """How people call it."""
        return label(self.stage, self.condition, self.seed)

    @property
    def suite_id(self) -> SuiteId:
        """The suite that asks."""
        name, _, hashed = self.suite.rpartition("-")
        return SuiteId(name, hashed)

    @property
    def folder(self) -> str:
        """Where the artefact belongs, relative to EVOLORA_HOME."""
        return f"runs/{self.suite_id.name}/{self.condition}-s{self.seed}/{self.stage}/{self.identity}"

    def entry(self, state: RunState, **changes: Any) -> Entry:
        """The index entry."""
        run_id = self.suite_id.run_id(self.condition, self.seed)
        return Entry(
            self.suite, run_id, self.condition, self.seed, self.stage, self.folder, self.identity, state, **changes
        )


@dataclass(frozen=True)
class Suite:
    """A suite in the making: its configuration, how its host is loaded, and who that host is."""

    config: SuiteConfig
    id: SuiteId
    host: dict[str, Any]  # word, device, dtype, threads
    host_identity: dict[str, Any]  # files, template, device kind, dtype, threads

    @property
    def families(self) -> list[str]:
        """The modules of all families that its items are of, for the stages that draw items or grade answers."""
        data = self.config.data
        return modules_of([*data.train_families, *data.ood_families, *data.retention_families])

    def trial(self, arm: str, choice: StageResult | None) -> int | None:
        """The number of the trial that was chosen for an arm; None if there are no trials."""
        if choice:
            chosen: int = choice.summary[arm]
            return chosen
        return 0 if self.config.trials else None


@dataclass(frozen=True)
class Relative:
    """A finished artefact that differs from the one to be made only in how far it went."""

    folder: Path
    horizon: Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """What a stage body gets. It writes into `folder`, where a killed attempt may have left something to resume
    from."""

    config: Mapping[str, Any]
    horizon: Mapping[str, Any]
    host: Mapping[str, Any]
    seed: int
    inputs: Mapping[str, Path]
    identities: Mapping[str, str]  # of the inputs
    summaries: Mapping[str, Mapping[str, Any]]
    folder: Path
    relatives: Sequence[Relative]
    report: Progress


@dataclass(frozen=True)
class Made:
    """What a stage body says about what it left in its folder."""

    flops: int = 0
    summary: dict[str, Any] = field(default_factory=dict)


Body = Callable[[Work], Made]
StageTask = Task[..., StageResult]


def stage_request(
    suite: Suite,
    stage: str,
    condition: str,
    seed: int,
    *,
    entry: str,
    config: Mapping[str, Any],
    inputs: Mapping[str, StageResult],
    horizon: Mapping[str, Any] | None = None,
    uses_host: bool = True,
    also: Sequence[str] = (),
    refusal: str = "",
) -> StageRequest:
    """Say what a stage is to do; `entry` is its body's module, `also` those it loads by name; `config` must be JSON."""
    document = stage_identity(
        entry=entry,
        config=config,
        inputs={role: result.identity for role, result in inputs.items()},
        seed=seed,
        host=suite.host_identity if uses_host else None,
        also=also,
    )
    lineage = digest(document)
    return StageRequest(
        suite=str(suite.id),
        stage=stage,
        condition=condition,
        seed=seed,
        config=dict(config),
        horizon=dict(horizon or {}),
        host=suite.host if uses_host else None,
        inputs=dict(inputs),
        identity_document=document | {"horizon": dict(horizon or {})},
        lineage=lineage,
        identity=digest([lineage, dict(horizon)]) if horizon else lineage,
        refusal=refusal,
    )


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


def stage_task(name: str, request: Callable[..., StageRequest], body: Body) -> StageTask:
    """A Prefect task of one stage. Its parameters are those of `request`: the suite, what the stage is of, and the
    results that it needs, as values or as futures. Cached by identity, retried after faults only.
    """

    @wraps(request)
    def run(*given: Any, **needs: Any) -> StageResult:
        return perform(request(*given, **needs), body)

    def run_name(*, parameters: dict[str, Any]) -> str:
        return request(**parameters).label

    return task(
        name=name,
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
    except StoreError as error:
        return type(error).__name__ == "Locked"
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return False  # still so the next time
    except OSError:
        return True
    except BaseException:
        return False
    return False


def stands(request: StageRequest) -> bool:
    """Whether the artefact is there and whole."""
    return artifacts.damage(home_path() / request.folder) is None


def perform(request: StageRequest, body: Body) -> StageResult:
    """Run a stage unless its artefact stands already; write index and manifest. Two processes that want the same
    stage take turns, and so do two that want the same accelerator."""
    home = home_path()
    folder = home / request.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    run = folder.parent.parent
    device = request.host["device"] if request.host else "cpu"
    with (
        FileLock(folder.with_name(f".{folder.name}.lock")),
        run_log(run, request.stage, request.label) as warnings,
        accelerator(device),
    ):
        if artifacts.damage(folder) is None:
            return reuse(request)
        started, clock = now(), time.perf_counter()
        running = request.entry("running", started=started, pid=os.getpid(), node=platform.node())
        write_entry(home, request.suite_id, running)
        try:
            if request.refusal:
                raise StageError(request.refusal)
            partial = artifacts.partial_folder(folder)
            with progress(request.label) as report:
                log.info("started")
                made = body(_work(request, partial, report))
            for name in SCRATCH:
                for scratch in [path for path in partial.rglob(name) if path.is_dir()]:
                    shutil.rmtree(scratch)
            manifest = artifacts.commit(
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
                    "summary": made.summary,
                    "warnings": warnings,
                },
            )
        except BaseException as error:
            write_entry(
                home, request.suite_id, request.entry("failed", started=started, finished=now(), reason=reason(error))
            )
            if isinstance(error, OSError):
                log.error("failed: %s", reason(error))
            elif not isinstance(error, EvoloraError):
                log.exception("failed")
            raise
    write_entry(home, request.suite_id, _finished(request, manifest, "done"))
    return _result(request, manifest)


def reuse(request: StageRequest) -> StageResult:
    """Hand on an artefact that stands, and say so in the index."""
    home = home_path()
    manifest = artifacts.read_manifest(home / request.folder)
    if manifest is None:
        raise StageError(f"{home / request.folder}: it has no manifest; run the suite again")
    write_entry(home, request.suite_id, _finished(request, manifest, "cached"))
    return _result(request, manifest)


def reason(error: BaseException) -> str:
    """One line about a failure."""
    text = " ".join(str(error).split())
    return text if isinstance(error, EvoloraError) else f"{type(error).__name__}: {text}"


def _work(request: StageRequest, partial: Path, report: Progress) -> Work:
    return Work(
        config=request.config,
        horizon=request.horizon,
        host=request.host or {},
        seed=request.seed,
        inputs={role: result.path for role, result in request.inputs.items()},
        identities={role: result.identity for role, result in request.inputs.items()},
        summaries={role: result.summary for role, result in request.inputs.items()},
        folder=partial,
        relatives=_relatives(request) if request.horizon else [],
        report=report,
    )


def _relatives(request: StageRequest) -> list[Relative]:
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
