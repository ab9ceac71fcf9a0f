"""What a suite would take, before it is run: which of its stages stand already, and how long the others last.

What a stage takes, its search says (`Search.estimator`), after short measurements. Nothing is written to EVOLORA_HOME.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from evolora_core.engine import artifacts
from evolora_core.engine.progress import Progress
from evolora_core.engine.stage import StageResult, Step, Suite
from evolora_core.searches.base import Experiment
from evolora_core.searches.registry import get_search

WHOLE = "A stage that was killed, and one that goes on from a shorter one of another run, count as a whole."


@dataclass(frozen=True)
class Expected:
    """What a stage would take on this machine: FLOPs, seconds of computing, and bytes that it leaves on disk."""

    flops: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """Estimate of a plan: the finished stages, what each other stage would take, how long these last together with so
    many at a time, and, in words, what is left out. expected: None where the search has no estimate.
    """

    steps: Sequence[Step]
    done: Mapping[str, StageResult]
    expected: Mapping[str, Expected] | None
    elapsed: float | None
    left_out: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """One row for the stages of a kind and a condition, in the order of the plan, and one with the sums. What a
        stage that stands would take is in none.
        """
        groups: dict[tuple[str, str], list[Step]] = {}
        for step in self.steps:
            groups.setdefault((step.name.partition(".")[0], step.stage.name), []).append(step)
        rows = [self._row(*key, group) for key, group in groups.items()]
        return [*rows, self._row("", "total", self.steps) | {"elapsed": self.elapsed}]

    def _row(self, condition: str, stage: str, steps: Sequence[Step]) -> dict[str, Any]:
        left = [step.name for step in steps if step.name not in self.done]
        row = {"condition": condition, "stage": stage, "stages": len(steps), "done": len(steps) - len(left)}
        if self.expected is None:
            return row
        own = [self.expected[name] for name in left]
        return row | {
            "flops": float(sum(one.flops for one in own)),
            "seconds": sum(one.seconds for one in own),
            "megabytes": sum(one.bytes for one in own) / 1e6,
            "elapsed": None,
        }


def estimate(home: Path, suite: Suite[Any], report: Progress) -> Estimate:
    """Look at the plan of a suite, and measure where something is left to do and the search knows how."""
    search = get_search(suite.config.search)
    steps = search.plan(suite)
    done = standing(home, steps)
    left = [step for step in steps if step.name not in done]
    if not left:
        return Estimate(steps, done, {}, 0.0)
    if not search.estimator:
        return Estimate(steps, done, None, None)
    by = import_module(search.estimator)
    expected: Mapping[str, Expected] = by.estimate(suite, left, report)
    seconds = {step.name: expected[step.name].seconds if step in left else 0.0 for step in steps}
    return Estimate(steps, done, expected, lasts(steps, seconds, suite.config.processes), f"{by.LEAVES_OUT} {WHOLE}")


def hosts(config: Experiment) -> list[str]:
    """The models that an estimate needs on this machine: an estimate fetches none."""
    search = get_search(config.search)
    if search.estimator:
        return list(import_module(search.estimator).hosts(config))
    host = search.host(config)
    return [host.word] if host else []


def bytes_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def standing(home: Path, steps: Sequence[Step]) -> dict[str, StageResult]:
    """Results, by step name, that a run would reuse, made by this suite or by another one."""
    found: dict[str, StageResult] = {}
    for step in steps:
        if any(need.name not in found for need in step.needed):
            continue
        request = step.stage.request(**step.given, **step.needs_from(found))
        within = Path(*Path(request.folder).parts[2:])  # the folder of a suite
        for folder in sorted(home.glob(f"runs/*/{within.as_posix()}")):
            manifest = artifacts.read_manifest(folder)
            if manifest and artifacts.damage(folder) is None:
                known = {key: manifest[key] for key in StageResult.model_fields if key != "folder"}
                found[step.name] = StageResult(folder=folder.relative_to(home).as_posix(), **known)
                break
    return found


def lasts(steps: Sequence[Step], seconds: Mapping[str, float], processes: int) -> float:
    """Seconds from the start of the first stage to the end of the last one. Of those that could start, the first of the
    plan does, as in a run.
    """
    clock, waiting, ended = 0.0, list(steps), set[str]()
    running: list[tuple[float, str]] = []
    while waiting or running:
        ready = next((step for step in waiting if all(need.name in ended for need in step.needed)), None)
        if ready and len(running) < processes:
            waiting.remove(ready)
            heapq.heappush(running, (clock + seconds[ready.name], ready.name))
        else:
            clock, name = heapq.heappop(running)
            ended.add(name)
    return clock
