"""From a suite file to a paper pack: what the flows of suites share. They differ in name and default file."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from prefect import Flow, flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.task_runners import TaskRunner
from pydantic import Field

from evolora_core.engine.artifacts import read_manifest
from evolora_core.engine.home import home_path
from evolora_core.engine.identity import code_as_it_is
from evolora_core.engine.run_index import (
    Entry,
    SuiteId,
    begin,
    entries,
    forget_entry,
    is_made,
    now,
    parts_of,
    read_entry,
    step_name,
    write_plan,
)
from evolora_core.engine.stage import JUDGED, StageResult, Step, Suite
from evolora_core.engine.strict import stated
from evolora_core.errors import EvoloraError, StageError, StoreError
from evolora_core.searches.base import Experiment
from evolora_core.searches.comparing import COMPARISON
from evolora_core.searches.packing import PACK
from evolora_core.searches.registry import get_search, sections_of, suite_id
from flows._artifacts import show_pack, show_page
from flows._crashed import name_process, report_killed
from flows._plan import check_plan, wanted
from flows._preflight import OVERRIDE, SUITES, asked_suite, check_machine, check_suite, use_host
from flows._publish import publish
from flows._runner import StageFuture, StageRunner, stage_runner
from flows._steps import Outcome, follow, later, submit
from flows._workers import workers_of
from tasks.record import record
from tasks.stage import enter_failed

log = logging.getLogger("evolora_core.stages")

PATIENCE = 60.0  # seconds for which a stage that ended waits for whoever holds the store


def run_name() -> str:
    """The suite's id, its name and the hash of its configuration; what was asked for, where there is no such suite."""
    given = flow_run.parameters
    try:
        return str(suite_id(asked_suite(given["suite"], given["overrides"], given["host"], given["seeds"])))
    except EvoloraError:
        return str(given["suite"])


def suite_flow(flow_name: str, module: str) -> Flow[..., dict[str, str]]:
    """The flow of that name, which runs the suite file of that name unless told otherwise; `module` is where it stands.

    Prefect reads names, defaults and descriptions of the parameters from the function.
    """

    def run(
        suite: str = SUITES[flow_name],
        overrides: list[Annotated[str, Field(pattern=OVERRIDE)]] = [],  # noqa: B006  # Prefect shows it as the default
        host: str = "",
        seeds: list[Annotated[int, Field(ge=0)]] = [],  # noqa: B006
        only: list[str] = [],  # noqa: B006
        packs: str = "packs",
    ) -> dict[str, str]:
        """Run what is not done yet of a suite; returns the suite's id and the folder of its pack.

        Raises StageError at the end if anything failed; the pack is then made of the seeds that are complete.

        Args:
            suite: A suite file, or the id of a suite that was run before.
            overrides: Changes to the suite file, such as `ecology.generations=24`.
            host: Another host than the suite's: a name, a hub id or a local folder.
            seeds: Other seeds than the suite's.
            only: Runs or stages to make, with what they need, such as `ecology.s0` or `sft.s1.evaluate`; the
                pack is left as it is. All of them, and the pack, if empty.
            packs: The folder that gets the pack.
        """
        return make_suite(suite, overrides, host, seeds, only, packs)

    run.__name__ = run.__qualname__ = flow_name.replace("-", "_")
    run.__module__ = module
    runner: TaskRunner[Any] = StageRunner()
    return flow(name=flow_name, flow_run_name=run_name, task_runner=runner)(run)


@code_as_it_is()
def make_suite(
    suite: str, overrides: Sequence[str], host: str, seeds: Sequence[int], only: Sequence[str], packs: str
) -> dict[str, str]:
    """Run what is not done yet of a suite, in the flow that calls this; returns the suite's id and the folder of its
    pack.

    Raises StageError at the end if anything failed; the pack is then made of the seeds that are complete.
    """
    name_process()
    report_killed()
    config = asked_suite(suite, overrides, host, seeds)
    out = Path(packs) / config.name
    check_machine(config)
    check_plan(config, only)
    check_suite(config, out)
    own = suite_id(config)
    begin(home_path(), own, stated(config), Path(packs))
    search = get_search(config.search)
    made = Suite(config, own, use_host(config))
    steps = search.plan(made)
    chosen = wanted(steps, only, own)
    write_plan(home_path(), own, [*(step.name for step in steps), COMPARISON, PACK])
    records = Records(own, steps)
    planned = [*(step.name for step in chosen), *([COMPARISON, PACK] if len(chosen) == len(steps) else [])]
    made_before = {entry.name for entry in entries(home_path(), own) if is_made(home_path(), entry)}
    before = sum(name in made_before for name in planned)
    reused = f"; {before} were done before, and are reused where nothing changed since" if before else ""
    log.info("%s: %d stages%s", own, len(planned), reused)
    with stage_runner().working(workers_of(config)) as runner:
        outcome = Outcome(len(planned))
        futures = submit(chosen)
        follow(runner, futures, outcome, records.keep)
        records.catch_up()
        complete: list[int] = []
        missing = {step.name for step in steps} - {*outcome.results}
        whole = len(chosen) == len(steps)  # else a comparison of a few runs would take the place of that of all
        if whole and records.made_elsewhere(missing):
            log.warning("warning: another process made what failed here; it makes the pack, or `evolora retry %s`", own)
        elif whole:
            lost = {name for failed in outcome.failures for name in (failed, *later(steps, failed))}
            sound = {name: result for name, result in outcome.results.items() if name not in lost}
            records.forget_others({step.name for step in steps}, sound)
            complete = complete_seeds(config, sound)
            if complete and (other := records.replaced(sound)):
                raise StageError(
                    f"{other}: another process recorded it of other code meanwhile, and no pack may mix the two; "
                    "run one of them again"
                )
        for step in search.closing(made, complete, steps, dict(outcome.results)) if complete else []:
            # What closes a suite is made from the store, and so of all that was recorded before.
            futures = submit([replace(step, wait_for=list(records.states))], futures)
            follow(runner, futures, outcome, records.keep)
            records.catch_up()
    if outcome.reused:
        log.info("%d of %d stages were done before and are reused", outcome.reused, outcome.planned)
    if packed := outcome.results.get(PACK):
        sections = sections_of(config)
        publish(packed, out, sections)
        show_pack(str(own), out, sections)
        show_page(str(own), search)
    if outcome.failures:
        tell(own, outcome.failures)
        raise StageError(why(own, outcome.failures, config, complete))
    return {"suite": str(own), "pack": str(out) if packed else ""}


class Records:
    """What a flow run tells the store: the slice of each stage as it ends, and only those of the present code."""

    def __init__(self, suite: SuiteId, steps: Sequence[Step]) -> None:
        self.suite, self.steps = suite, steps
        self.states: list[State[Any]] = []  # of the task runs `record`
        self._before = [own.name for own in entries(home_path(), suite)]
        self._known: dict[str, dict[str, Any]] | None = None
        self._late: list[StageFuture] = []  # that the store could not take yet

    @property
    def _recorded(self) -> dict[str, dict[str, Any]]:
        """Manifests in the store by stage name, as first read, without those that this run forgot."""
        if self._known is None:
            self._known = recorded(self.suite)
        return self._known

    def keep(self, future: StageFuture) -> None:
        """Load what a stage left, which another suite may have made before, unless the store has it already. Where
        somebody holds the store, what the stage left waits for the end of the next one. Raises what the store raises
        else.
        """
        result = future.result()
        entry = read_entry(home_path(), self.suite, result.condition, result.seed, result.stage)
        future.reused |= entry is not None and entry.state == "cached"
        if self._known is not None and self._stands(result):
            return
        held = bool(self._late)
        self._late.append(future)
        if (why := holder(1.0 if held else PATIENCE)) is not None:
            if not held:
                log.warning("warning: %s; stages go on, and what they leave is recorded when it is free", why)
            return
        try:
            self.catch_up()
        except Exception as error:
            if not held:
                self._late.clear()  # the stage fails
                raise
            log.warning("warning: %s", error)  # of an earlier stage, perhaps: it is tried once more in the end

    def catch_up(self) -> None:
        """Load what waits, in the order in which it was made. Raises what the store raises."""
        while self._late:
            future = self._late[0]
            result = future.result()
            if self._stands(result):
                self._late.pop(0)
                continue
            self._forget_later(result)
            state = record(str(self.suite), result, wait_for=[future], return_state=True)
            state.result()
            self.states.append(state)
            self._late.pop(0)

    def _stands(self, result: StageResult) -> bool:
        """Whether the store has just this result."""
        before = self._recorded.get(step_name(result.condition, result.seed, result.stage))
        return before is not None and before == read_manifest(home_path() / result.folder)

    def made_elsewhere(self, names: set[str]) -> bool:
        """Whether another process has recorded one of these stages since this run first read the store."""
        there = recorded(self.suite) if names else {}
        return any(there[name] != self._recorded.get(name) for name in names & {*there})

    def replaced(self, results: Mapping[str, StageResult]) -> str | None:
        """The first stage of which the store has another result than this run's, which another process recorded."""
        there = recorded(self.suite)
        manifests = {name: read_manifest(home_path() / result.folder) for name, result in results.items()}
        return next((name for name, own in manifests.items() if there.get(name) != own), None)

    def _forget_later(self, result: StageResult) -> None:
        """Where the store has another one than `result`, forget what was made of that: it may not be made anew now, as
        after Ctrl-C. Answers that the store has not are in none of its comparisons. Another run of the suite may have
        recorded `result` since this one first read the store, and a comparison with it.
        """
        own = step_name(result.condition, result.seed, result.stage)
        before = self._recorded.get(own)
        new = result.stage == JUDGED if before is None else before["identity"] != result.identity
        if not new or own in (COMPARISON, PACK):
            return
        if recorded(self.suite).get(own) != read_manifest(home_path() / result.folder):
            self._forget([*later(self.steps, own), COMPARISON, PACK])

    def forget_others(self, planned: set[str], results: Mapping[str, StageResult]) -> None:
        """Forget what stands from an earlier run and was not made or reused now: it may be of other code, and must not
        be mixed with this one's.
        """
        stale = {*self._before, *planned} - {*results, COMPARISON, PACK}
        self._forget([*sorted(stale), COMPARISON, PACK] if stale else [])

    def _forget(self, names: Sequence[str]) -> None:
        forget(self.suite, names)
        for name in names:
            self._recorded.pop(name, None)


def tell(suite: SuiteId, failures: Mapping[str, str]) -> None:
    """Enter in the index why stages failed that could not be asked for, or not be recorded: they never said so. What
    another process made and recorded meanwhile stays.
    """
    try:
        stored = recorded(suite)
    except StoreError:  # it may be what failed
        stored = {}
    for name, reason in failures.items():
        condition, seed, stage = parts_of(name)
        known = read_entry(home_path(), suite, condition, seed, stage)
        if known and (known.state == "running" or known.reason == reason):
            continue
        if known and known.state != "failed" and name in stored:
            continue
        run_id = suite.run_id(condition, seed)
        blank = Entry(str(suite), run_id, condition, seed, stage, "", "", "failed", started=now())
        enter_failed(replace(known or blank, state="failed", reason=reason, finished=now()))


def complete_seeds(config: Experiment, results: Mapping[str, StageResult]) -> list[int]:
    """Seeds that were evaluated in every condition."""
    return [seed for seed in config.seeds if all(step_name(own, seed, JUDGED) in results for own in config.conditions)]


def holder(patience: float) -> str | None:
    """Who holds the store for longer than so many seconds, in words."""
    from evolora_core.store.connection import Locked, opened, store_path

    try:
        with opened(store_path(home_path()), wait=patience):
            return None
    except Locked as error:
        return str(error)


def recorded(suite: SuiteId) -> dict[str, dict[str, Any]]:
    """The manifests of a suite's stages in the store, by name."""
    from evolora_core.store import query, store_path

    if not store_path(home_path()).exists():
        return {}
    rows = query(home_path(), "SELECT condition, seed, stage, manifest FROM stages WHERE suite = ?", [str(suite)]).rows
    return {step_name(condition, seed, stage): json.loads(manifest) for condition, seed, stage, manifest in rows}


def forget(suite: SuiteId, names: Sequence[str]) -> None:
    """Take stages out of store and index; their folders stay."""
    if not names:
        return
    from evolora_core.store import forget as forget_slices

    parts = [parts_of(name) for name in names]
    forget_slices(home_path(), [(suite.run_id(condition, seed), stage) for condition, seed, stage in parts])
    for condition, seed, stage in parts:
        forget_entry(home_path(), suite, condition, seed, stage)


def why(suite: SuiteId, failures: dict[str, str], config: Experiment, complete: Sequence[int]) -> str:
    """One line: the first failure, how many there are, and which seeds the pack is without."""
    first, reason = next(iter(failures.items()))
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    missing = [str(seed) for seed in config.seeds if seed not in complete]
    without = f"; the pack is without seed {', '.join(missing)}" if complete and missing else ""
    rest = f"`evolora status {suite}` shows all, `evolora retry {suite}` makes what is missing"
    return f"{first}: {reason}{more}{without}; {rest}"
