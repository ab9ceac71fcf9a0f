"""Stages: what one is asked to do, what its body gets and leaves, what it hands on, and the plan that they stand in.

A search describes its stages with these. How a stage is run, cached and retried is `tasks/stage.py`'s. A body sees the
work that it is given and nothing else: its settings, the folders of its inputs, its seed and host. That is what its
identity hashes, so it cannot depend on anything outside of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from evolora_core.engine import artifacts
from evolora_core.engine.home import home_path
from evolora_core.engine.identity import digest, stage_identity
from evolora_core.engine.progress import Progress, silent
from evolora_core.engine.run_index import Entry, State, SuiteId
from evolora_core.engine.strict import stated

Config = TypeVar("Config", bound=BaseModel, covariant=True)
Facts = TypeVar("Facts", bound=BaseModel)
T = TypeVar("T")

SHARED = "shared"  # what stages stand under that all conditions share,
WHOLE = "suite"  # and those of a whole suite
JUDGED = "evaluate"  # in every search, the name of the stage that judges a condition with a seed


class NoFacts(BaseModel):
    """Facts of a stage that leaves only its files."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NotRun(BaseModel):
    """Facts of a stage of a condition that could not be run because its budget is too small; `not_run` says why. The
    stage JUDGED says so too. Such a run has no answers and is compared with nothing; the rest of its seed counts.
    """

    model_config = ConfigDict(frozen=True)

    not_run: str


@dataclass(frozen=True)
class HostUse:
    """How a suite loads its host, and what of it decides results: files, template, dtype, kind of device, threads."""

    word: str
    device: str
    dtype: str
    threads: int
    files: str  # hash
    template: Mapping[str, JsonValue]

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What decides results."""
        return {
            "files": self.files,
            "template": dict(self.template),
            "dtype": self.dtype,
            "device": self.device.partition(":")[0],
            "threads": self.threads,
        }


@dataclass(frozen=True)
class Suite(Generic[Config]):
    """An experiment in the making: its settings, its id, and its host if it has one."""

    config: Config
    id: SuiteId
    host: HostUse | None = None


class StageResult(BaseModel):
    """What a finished stage hands on: where it lies, who it is, and a few small facts. Never tensors."""

    model_config = ConfigDict(frozen=True)

    stage: str
    condition: str
    seed: int
    folder: str  # relative to EVOLORA_HOME
    identity: str
    seconds: float
    flops: int
    summary: dict[str, JsonValue]

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

    def facts(self, kind: type[Facts]) -> Facts:
        """The facts, of the kind that its stage says."""
        return kind.model_validate(self.summary)


@dataclass(frozen=True)
class StageRequest:
    """One stage to run."""

    suite: SuiteId
    stage: str
    condition: str
    seed: int
    config: BaseModel
    horizon: Mapping[str, int]  # how far to go, for a stage that can be extended; not part of what it resumes
    host: HostUse | None
    inputs: Mapping[str, StageResult]
    identity_document: Mapping[str, Any]
    lineage: str  # identity without the horizon
    identity: str
    refusal: str = ""  # why it is not to be made; what was made before is handed on all the same

    @property
    def label(self) -> str:
        """How people call it."""
        return label(self.stage, self.condition, self.seed)

    @property
    def folder(self) -> str:
        """Where the artefact belongs, relative to EVOLORA_HOME."""
        return f"runs/{self.suite.name}/{self.condition}-s{self.seed}/{self.stage}/{self.identity}"

    def entry(self, state: State, **changes: Any) -> Entry:
        """The index entry."""
        run_id = self.suite.run_id(self.condition, self.seed)
        return Entry(
            str(self.suite), run_id, self.condition, self.seed, self.stage, self.folder, self.identity, state, **changes
        )


@dataclass(frozen=True)
class Relative:
    """A finished artefact that differs from the one to be made only in how far it went."""

    folder: Path
    horizon: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Work(Generic[Config]):
    """What a body gets. It writes into `folder`, where a killed attempt may have left something to resume from."""

    config: Config
    host: HostUse | None = None
    seed: int
    folder: Path
    inputs: Mapping[str, Path] = field(default_factory=dict)
    results: Mapping[str, StageResult] = field(default_factory=dict)  # of the inputs
    horizon: Mapping[str, int] = field(default_factory=dict)
    relatives: Sequence[Relative] = ()
    report: Progress = silent


@dataclass(frozen=True)
class Made(Generic[Facts]):
    """What a body says about what it left in its folder."""

    flops: int
    facts: Facts


@dataclass(frozen=True)
class Stage:
    """A kind of stage. `request` says from the suite, what the stage is of, and the results that it needs, what is to
    be done; `body` does it. Both are functions of a module, or partial ones, so that other processes find them.
    """

    name: str
    request: Callable[..., StageRequest]
    body: Callable[[Work[Any]], Made[Any]]


@dataclass(frozen=True, eq=False)
class Step:
    """A stage in a plan. `given` are values, `needs` other steps, by parameters of its request."""

    name: str  # CONDITION.sSEED.STAGE, as people call it
    stage: Stage
    given: Mapping[str, Any]
    needs: Mapping[str, "Step | Sequence[Step] | None"] = field(default_factory=dict)
    wait_for: Sequence[Any] = ()  # states of other task runs that come before it

    @property
    def needed(self) -> list["Step"]:
        """All the steps that it needs."""
        needs = [need if isinstance(need, Sequence) else [need] for need in self.needs.values()]
        return [step for group in needs for step in group if step is not None]

    def needs_from(self, found: Mapping[str, T]) -> dict[str, T | list[T] | None]:
        """What stands for its needs in `found`, by name of the step."""

        def one(need: "Step | Sequence[Step] | None") -> T | list[T] | None:
            if isinstance(need, Sequence):
                return [found[step.name] for step in need]
            return found[need.name] if need else None

        return {role: one(need) for role, need in self.needs.items()}


def unique(steps: Sequence[Step]) -> list[Step]:
    """The steps without those that stand before under the same name."""
    return list({step.name: step for step in steps}.values())


def label(stage: str, condition: str, seed: int) -> str:
    """What people read of a stage: `evolve ecology s2`, `datasets s0` where all conditions share it, `compare` of a
    suite.
    """
    if condition == WHOLE:
        return stage
    return f"{stage} s{seed}" if condition in (SHARED, stage) else f"{stage} {condition} s{seed}"


def stage_request(
    suite: Suite[Any],
    stage: str,
    condition: str,
    seed: int,
    *,
    entry: str,
    config: BaseModel,
    inputs: Mapping[str, StageResult],
    also: Sequence[str] = (),
    horizon: Mapping[str, int] | None = None,
    uses_host: bool = True,
    refusal: str = "",
) -> StageRequest:
    """Say what a stage is to do. `entry` is the module of its body, `also` are modules that the body loads by name."""
    host = suite.host if uses_host else None
    document = stage_identity(
        entry=entry,
        also=also,
        config=stated(config),
        inputs={role: result.identity for role, result in inputs.items()},
        seed=seed,
        host=host.identity if host else None,
    )
    lineage = digest(document)
    return StageRequest(
        suite=suite.id,
        stage=stage,
        condition=condition,
        seed=seed,
        config=config,
        horizon=dict(horizon or {}),
        host=host,
        inputs=dict(inputs),
        identity_document=document | {"horizon": dict(horizon or {})},
        lineage=lineage,
        identity=digest([lineage, dict(horizon)]) if horizon else lineage,
        refusal=refusal,
    )
