"""A plan of stages, submitted to Prefect: what a stage needs are futures, and so edges of the run graph."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import StageResult, Step
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from evolora_core.searches.comparing import COMPARISON
from evolora_core.searches.packing import PACK
from flows._runner import StageFuture, StageRunner
from tasks.stage import reason, task_of

log = logging.getLogger("evolora_core.stages")


def submit(steps: Sequence[Step], before: Mapping[str, StageFuture] | None = None) -> dict[str, StageFuture]:
    """Prefect's futures of a plan, by name, with those that were submitted `before`. The order of the plan is that of
    urgency.
    """
    futures: dict[str, StageFuture] = dict(before or {})

    def future(need: "Step | Sequence[Step] | None") -> Any:
        if isinstance(need, Sequence):
            return [futures[step.name] for step in need]
        return futures[need.name] if need else None

    for step in steps:
        needs = {role: future(need) for role, need in step.needs.items()}
        futures[step.name] = task_of(step.stage).submit(**step.given, **needs, wait_for=step.wait_for)
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


def wanted(steps: Sequence[Step], only: Sequence[str], suite: SuiteId) -> list[Step]:
    """The steps of the named runs and stages and all that they need, in the order of the plan; all if none is named, or
    one of the stages that close the suite.

    Raises ConfigError for a name that is none.
    """
    by_name = {step.name: step for step in steps}
    closing_names = {COMPARISON, PACK, COMPARISON.rpartition(".")[0]}
    waiting: list[Step] = []
    for word in only:
        # With or without the suite's name, which may be a condition's too.
        words = dict.fromkeys(word.removeprefix(prefix) for prefix in ("", f"{suite}.", f"{suite.name}."))
        if closing_names & set(words):
            return list(steps)
        named = [[own for own in by_name if own == short or own.startswith(f"{short}.")] for short in words]
        if not any(named):
            runs = dict.fromkeys(own.rpartition(".")[0] for own in by_name)
            raise ConfigError(
                f"{word}: {suite} has no such run or stage; its runs are {one_line(', '.join(runs), 200)}"
            )
        waiting += [by_name[own] for own in next(filter(None, named))]
    if not only:
        return list(steps)
    chosen: set[str] = set()
    while waiting:
        step = waiting.pop()
        if step.name not in chosen:
            chosen.add(step.name)
            waiting += step.needed
    return [step for step in steps if step.name in chosen]
