"""A plan of stages, submitted to Prefect: what a stage needs are futures, and so edges of the run graph."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evolora_core.engine.stage import StageResult, Step
from flows._runner import StageFuture, StageRunner
from tasks.stage import reason, task_of

log = logging.getLogger("evolora_core.stages")


def submit(steps: Sequence[Step], before: Mapping[str, StageFuture] | None = None) -> dict[str, StageFuture]:
    """Prefect's futures of a plan, by name, with those that were submitted `before`. The order of the plan is that of
    urgency.
    """
    futures: dict[str, StageFuture] = dict(before or {})
    for step in steps:
        needs: dict[str, Any] = step.needs_from(futures)
        future: Any = task_of(step.stage).submit(**step.given, **needs, wait_for=step.wait_for)
        futures[step.name] = future
    return futures


@dataclass
class Outcome:
    """What became of a plan: results and one-line reasons by name; a stage in neither was not reached."""

    planned: int  # stages
    results: dict[str, StageResult] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    reused: int = 0


def follow(
    runner: StageRunner, futures: Mapping[str, StageFuture], outcome: Outcome, done: Callable[[StageFuture], None]
) -> None:
    """Wait for all futures that have not ended, and note what becomes of them. `done` is called with each that has a
    result; what it raises fails the stage.
    """
    names = {future: own for own, future in futures.items()}
    for future in runner.completed():
        own = names[future]
        if future.state.is_pending():  # something that it needs failed
            continue
        try:
            result = future.result()
            done(future)
        except Exception as error:  # one seed's fault must not stop the others
            outcome.failures[own] = reason(error)
            log.error("error: %s: %s", own, outcome.failures[own])
            continue
        outcome.results[own] = result
        outcome.reused += future.reused
        if not future.reused:
            log.info("%s done in %.1f s (%d of %d)", own, result.seconds, len(outcome.results), outcome.planned)


def later(steps: Sequence[Step], name: str) -> list[str]:
    """Names of all the steps of a plan that need a step, directly or by others."""
    found = {name}
    for step in steps:  # what is needed stands first
        if any(need.name in found for need in step.needed):
            found.add(step.name)
    return sorted(found - {name})
