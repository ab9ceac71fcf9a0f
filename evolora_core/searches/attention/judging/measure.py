"""The parent's side of an evaluation: hands a program to a child process, and reads what comes back with suspicion.

The child says how many parameters and operations a program has; time and memory are the kernel's figures, and the loss
is taken here, from logits, against targets that the child never had.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Outcome, Sandbox
from evolora_core.sandbox.untrusted import Unreadable, read_array, read_json
from evolora_core.searches.attention.corpus.base import Corpus, narrow, save_train
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.host.flops import Cost
from evolora_core.searches.attention.host.sizes import Size
from evolora_core.searches.attention.host.state import SECONDS
from evolora_core.searches.attention.host.training import TrainSpec
from evolora_core.searches.attention.judging import job, learning
from evolora_core.searches.attention.judging.loading import load_program
from evolora_core.searches.attention.judging.sealed import losses, prefixes
from evolora_core.searches.attention.programs.reading import Step, plain
from evolora_core.searches.attention.programs.rejection import LADDER, STAGES, Rejected, Rejection

CHILD = "evolora_core.searches.attention.judging.child"  # what a sandbox has to load beforehand
_LARGEST_RESULT = 1 << 20  # bytes
_MOMENT = 1e-3  # seconds
_MOST_FLOPS = 1 << 56  # of a whole measurement: the store adds up many of them in 64 bits


@dataclass(frozen=True)
class Measured:
    """One program at one size with one seed.

    losses       float64 `[M]` nats of each held-out text; None: it was refused, and has no score
    parameters   without the embedding, as the child says; 0 where it was refused
    flops        operations of one training step
    cpu_seconds  of the whole child process, by the kernel; NaN where the sandbox itself was lost. With what a
                 training that goes on had taken before, as that child said
    lost         somebody else ended the child or its sandbox, each time that it was asked
    """

    losses: np.ndarray | None
    parameters: int
    flops: int
    cpu_seconds: float
    wall_seconds: float
    rejection: Rejection | None = None
    lost: bool = False


@dataclass(frozen=True)
class Checked:
    """How far up the ladder a program came; `rejection` says why no further, `lost` as in `Measured`."""

    steps: tuple[Step, ...]
    cpu_seconds: float
    wall_seconds: float
    rejection: Rejection | None = None
    lost: bool = False


@dataclass(frozen=True)
class Contract:
    """What a program is examined at: the same for all programs of a run.

    baseline  what the baseline costs by the name of a size, from `baseline_costs`
    """

    sizes: tuple[Size, ...]
    context: int
    vocab: int
    baseline: Mapping[str, Cost]


def baseline_costs(sizes: Sequence[Size], context: int, vocab: int) -> dict[str, Cost]:
    """What causal softmax attention costs at each size. Runs the framework's own text, here."""
    program = load_program(FRAMEWORKS["coefficient-dynamics"].source)
    return learning.costs(program, sizes, vocab, context)


def measure(
    sandbox: Sandbox, source: str, size: Size, spec: TrainSpec, corpus: Corpus, seed: int, folder: Path, limits: Limits
) -> Measured:
    """Train a program in a child process and score its answers. A refusal is a result, never an exception.

    The folder is made; the large files in it are deleted afterwards. The state of a long training, which a killed
    process left there, is gone on from, and what it had taken counts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (job.RESULT, job.LOGITS):
        (folder / name).unlink(missing_ok=True)
    job.write(job.MeasureJob(size, spec, corpus.vocab, seed), source, folder)
    save_train(corpus, folder / job.TRAIN)
    shown = {"prefixes": narrow(prefixes(corpus), corpus.vocab), "lengths": corpus.lengths.to(torch.int32)}
    save_file(shown, folder / job.PREFIXES)
    before = _spent(folder / job.STATE, limits.seconds)
    try:
        outcome = sandbox.run(folder, f"{CHILD}:measure", replace(limits, seconds=limits.seconds - before))
        if before and outcome.status == "timeout":
            outcome = replace(outcome, reason=f"more than {limits.seconds:g} s")
        outcome = replace(outcome, cpu_seconds=outcome.cpu_seconds + before)
        return _measured(outcome, corpus, spec, folder)
    finally:
        for name in (job.TRAIN, job.PREFIXES, job.LOGITS):
            (folder / name).unlink(missing_ok=True)


def check(
    sandbox: Sandbox, source: str, framework: str | None, contract: Contract, folder: Path, limits: Limits
) -> Checked:
    """Examine a program in a child process, stage by stage."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = job.LadderJob(framework, contract.sizes, contract.context, contract.vocab, contract.baseline)
    job.write(asked, source, folder)
    outcome = sandbox.run(folder, f"{CHILD}:ladder", limits)
    steps: list[Step] = []
    rejection = _ended_badly(outcome, "build")
    try:
        steps = _steps(read_json(folder / job.RESULT, _LARGEST_RESULT))
    except Unreadable as error:
        rejection = rejection or Rejection("build", "the child process left no result", str(error))
    if steps and not steps[-1].passed:
        rejection = Rejection(steps[-1].stage, steps[-1].reason, steps[-1].place)
    elif rejection is None and [step.stage for step in steps] != list(LADDER):
        rejection = Rejection("build", "the child process left stages out", "")
    elif rejection is not None:
        reached = LADDER[len(steps)] if len(steps) < len(LADDER) else ""
        rejection = Rejection(rejection.stage, rejection.reason, f"at the stage {reached}" if reached else "")
    return Checked(tuple(steps), outcome.cpu_seconds, outcome.wall_seconds, rejection)


def _spent(state: Path, most: float) -> float:
    """Processor seconds that a training had taken when its state was saved, cut off just below `most`."""
    if not state.is_file():
        return 0.0
    try:
        with safe_open(state, "numpy") as kept:
            seconds = float(kept.get_tensor(SECONDS)[0])
    except (OSError, SafetensorError, TypeError, ValueError, IndexError):
        return 0.0  # what the child itself then says of it
    return min(seconds, most - _MOMENT) if seconds > 0 else 0.0


def _measured(outcome: Outcome, corpus: Corpus, spec: TrainSpec, folder: Path) -> Measured:
    used = (outcome.cpu_seconds, outcome.wall_seconds)
    try:
        if (rejection := _ended_badly(outcome, "train")) is not None:
            raise Rejected(rejection.stage, rejection.reason, rejection.place)
        result = read_json(folder / job.RESULT, _LARGEST_RESULT)
        if result.get("status") != "ok":
            stage = plain(result.get("stage"))
            raise Rejected(
                stage if stage in STAGES else "train", plain(result.get("reason")), plain(result.get("place"))
            )
        logits = read_array(folder / job.LOGITS, "logits", (len(corpus.texts), corpus.vocab))
        found = losses(torch.from_numpy(logits), corpus).numpy()
        parameters, flops, steps = (_count(result.get(name)) for name in ("parameters", "flops_step", "steps"))
        if steps != spec.steps:
            raise Rejected("train", f"it was trained for {steps} steps instead of {spec.steps}")
        if min(parameters, flops) < 1:
            raise Rejected("cost", "the child says that it has no parameters, or takes no operations")
        if flops * (spec.steps + len(corpus.texts)) > _MOST_FLOPS:
            raise Rejected("cost", f"{flops:.2g} operations a training step are more than can be counted")
    except Unreadable as error:
        return Measured(None, 0, 0, *used, Rejection("train", "the child process left no result", str(error)))
    except Rejected as error:
        return Measured(None, 0, 0, *used, error.rejection)
    return Measured(found, parameters, flops, *used)


def _ended_badly(outcome: Outcome, stage: str) -> Rejection | None:
    """The rejection for how a child ended; None if it ended by itself and left a result."""
    if outcome.status == "ok":
        return None
    named = outcome.status if outcome.status in ("timeout", "memory") else stage
    return Rejection(named, plain(outcome.reason) or f"the child process ended as {outcome.status}")


def _steps(result: Mapping[str, Any]) -> list[Step]:
    """The steps that a child reports, up to the first that is out of order."""
    steps: list[Step] = []
    for stage, found in zip(LADDER, _list(result.get("steps")), strict=False):
        if not isinstance(found, dict):
            break
        said, passed = found.get("stage"), found.get("passed") is True
        if said != stage and (passed or said not in STAGES):  # a refusal may be of another kind, such as memory
            break
        reason, place = plain(found.get("reason")), plain(found.get("place"))
        steps.append(Step(str(said), passed, reason, place, _number(found.get("seconds"))))
        if not steps[-1].passed:
            break
    return steps


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float:
    """A finite number, or Unreadable."""
    number = isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62)
    if not number or not math.isfinite(value):
        raise Unreadable(f"{'a long one' if isinstance(value, int) else repr(plain(value)[:40])} is no number")
    return float(value)


def _count(value: Any) -> int:
    """A count that the store can hold, or Unreadable."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise Unreadable(f"{plain(value)[:40]!r} is no count")
    return value
