"""What a suite would take, before it is run: which of its stages stand already, and how long the others last.

What a stage takes, its search says (`Search.estimator`), after short measurements. Nothing here writes.
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
from evolora_core.searches.registry import get_search


@dataclass(frozen=True)
class Expected:
    """What a stage would take on this machine: FLOPs, seconds of computing, and bytes that it leaves on disk."""

    flops: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """Of a plan: the stages that stand already, what each of the others would take, and how long these last together,
    so many at a time. expected: None where the search foretells nothing.
    """

    steps: Sequence[Step]
    done: Mapping[str, StageResult]
    expected: Mapping[str, Expected] | None
    elapsed: float | None

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
            "flops": sum(one.flops for one in own),
            "seconds": sum(one.seconds for one in own),
            "megabytes": sum(one.bytes for one in own) / 1e6,
            "elapsed": None,
        }


def estimate(home: Path, suite: Suite[Any], report: Progress) -> Estimate:
    """Look at the plan of a suite, and measure where something is left to do and the search knows how."""
    search = get_search(suite.config.search)
    steps = search.plan(suite)
    done = standing(home, steps)
    if len(done) == len(steps):
        return Estimate(steps, done, {}, 0.0)
    if not search.estimator:
        return Estimate(steps, done, None, None)
    expected: Mapping[str, Expected] = import_module(search.estimator).estimate(suite, steps, report)
    seconds = {step.name: 0.0 if step.name in done else expected[step.name].seconds for step in steps}
    return Estimate(steps, done, expected, lasts(steps, seconds, suite.config.processes))


def standing(home: Path, steps: Sequence[Step]) -> dict[str, StageResult]:
    """By name, what the stages left that a run would reuse, made by this suite or by another one."""
    found: dict[str, StageResult] = {}
    for step in steps:
        if any(need.name not in found for need in step.needed):
            continue
        needs = {
            role: [found[own.name] for own in need] if isinstance(need, Sequence) else need and found[need.name]
            for role, need in step.needs.items()
        }
        request = step.stage.request(**step.given, **needs)
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
