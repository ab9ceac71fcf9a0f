"""What a night can do to a suite: kill its processes, fill its disk, hold its store, damage its files, start it twice.

Each fault gets a home of its own. The suite runs, the fault strikes, `evolora retry` is called until it succeeds, and
then every table must hold what the tables of an undisturbed run hold (see the checks for the two faults after which
that cannot be).
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from evolora_core.engine import rng
from evolora_core.errors import ConfigError, StageError
from evolora_core.searches.base import Experiment
from evolora_core.store import query
from flows.bench import strikes
from flows.bench.strikes import NotStruck, Strike
from flows.bench.timing import Row
from flows.bench.victim import Victim, end_all

ATTEMPTS = 5  # to strike
TOLERANCE = 0.05  # of an accuracy over some dozens of items, where smaller batches round otherwise
Check = Callable[[Victim, Victim], list[str]]  # (struck and finished, undisturbed) -> what is wrong


@dataclass(frozen=True)
class Fault:
    """What happens, how often it is tried, and what must hold afterwards."""

    name: str
    strike: Strike
    times: int
    check: Check
    needs: str = ""  # what this machine lacks for it


def measure(config: Experiment, kills: int, seed: int, only: Sequence[str] = ()) -> list[Row]:
    """Every fault whose name has one of `only` in it, or all: how often tried (`other`) and survived (`ours`)."""
    with tempfile.TemporaryDirectory(prefix="evolora-faults-") as folder:
        try:
            names = [fault.name for fault in _faults(kills, 1.0)]
            if only and not any(part in name for part in only for name in names):
                raise ConfigError(f"--only {' '.join(only)}: no such fault; there are {', '.join(names)}")
            calm = Victim.make(Path(folder) / "calm", config)
            started = time.monotonic()
            calm.start()
            if calm.finish():
                raise StageError(f"{calm.log}: the undisturbed suite failed; mend that first")
            rows = []
            for fault in _faults(kills, time.monotonic() - started):
                if not only or any(part in fault.name for part in only):
                    rows.append(_row(fault, [] if fault.needs else _tries(fault, Path(folder), seed, calm)))
        finally:
            end_all()  # an interrupted benchmark leaves no suite running
    return rows


def _tries(fault: Fault, folder: Path, seed: int, calm: Victim) -> list[str]:
    """For each try why it was not survived; "" if it was."""
    outcomes: list[str] = []
    for number in range(fault.times):
        started = time.monotonic()
        place = folder / f"{fault.name}-{number}".replace(" ", "-")
        try:
            victim = _struck(fault, place, seed, number, calm.config)
            retries = victim.finish()
            wrong = [f"{stage} is not done" for stage in victim.unfinished()] + fault.check(victim, calm)
            said = "; ".join(wrong) or f"survived, {retries} retries"
        except Exception as error:
            wrong = [" ".join(f"{type(error).__name__}: {error}".split())]
            said = wrong[0]
        outcomes.append("; ".join(wrong))
        seconds = time.monotonic() - started
        print(f"{fault.name} {number + 1}/{fault.times}: {said}, {seconds:.0f} s", file=sys.stderr, flush=True)
    return outcomes


def _struck(fault: Fault, place: Path, seed: int, number: int, config: Experiment) -> Victim:
    """A victim of the fault; a suite that was faster than it is no try, and another is started."""
    for attempt in range(ATTEMPTS):
        victim = Victim.make(place / str(attempt), config)
        try:
            fault.strike(victim, rng.stream(seed, attempt, number, f"fault.{fault.name}"))
            return victim
        except NotStruck as error:
            missed = error
    raise StageError(f"not struck in {ATTEMPTS} attempts: {missed}")


def _faults(kills: int, span: float) -> Iterator[Fault]:
    """All of them; an undisturbed run takes `span` seconds."""
    for name, find in (
        ("flow process", strikes.flow_process),
        ("worker process", strikes.worker_process),
        ("server process", strikes.server_process),
    ):
        yield Fault(f"kill -9 of the {name}", partial(strikes.kill, span=span, find=find), kills, same_tables)
    yield Fault("same suite started twice", strikes.twice, 1, same_tables)
    yield Fault("two suites on one store", strikes.two_suites, 1, same_tables)
    yield Fault("store locked for 30 s", strikes.locked, 1, same_tables)
    for pattern in ("population.safetensors", "evaluations.parquet", "adapter_model.safetensors"):
        yield Fault(f"truncated {pattern}", partial(strikes.truncated, pattern=pattern), 1, same_tables)
    for name, fault, code, check in (
        ("truncated checkpoint", "truncated_checkpoint", -signal.SIGKILL, same_tables),
        ("NaN organelle", "not_a_number", 0, retired_and_repeatable),
        ("out of memory", "out_of_memory", 0, close_and_marked),
    ):
        yield Fault(name, partial(strikes.sabotaged, fault=fault, code=code), 1, check)
    needs = "" if find_spec("time_machine") else "the extra dev (time-machine)"
    yield Fault("clock jumps", partial(strikes.clock_jumps, span=span), 1, same_tables_of_another_day, needs)
    needs = "" if sys.platform == "linux" and os.geteuid() == 0 else "root on Linux"
    yield Fault("disk full", strikes.disk_full, 1, same_tables, needs)
    yield Fault("home read-only for a while", partial(strikes.read_only, span=span), 1, same_tables, needs)


def same_tables(victim: Victim, calm: Victim) -> list[str]:
    """Every table holds what it holds in an undisturbed run."""
    found = victim.contents()
    return [f"{table} differs" for table, content in sorted(calm.contents().items()) if found[table] != content]


def same_tables_of_another_day(victim: Victim, calm: Victim) -> list[str]:
    """The same tables, though their stages say that they were made on several days."""
    days = {(entry.started or "")[:10] for entry in victim.entries()}
    return same_tables(victim, calm) + ([] if len(days) > 1 else ["all stages are of one day"])


def retired_and_repeatable(victim: Victim, calm: Victim) -> list[str]:
    """The organelles went, nothing of theirs is left, and a second suite struck alike has the same tables."""
    fates = query(victim.home, "SELECT organelle FROM organelles WHERE cause = 'not finite'").rows
    twin = Victim.make(victim.folder / "twin", victim.config)
    twin.start("not_a_number", str(twin.suite), module="flows.bench.sabotage")
    if twin.finish():
        return ["the same again failed"]
    return ([] if fates else ["no organelle was retired for it"]) + same_tables(victim, twin)


def close_and_marked(victim: Victim, calm: Victim) -> list[str]:
    """The accuracies are those of an undisturbed run within a tolerance, and the stages say what happened."""
    accuracies = "SELECT condition, seed, split, acc FROM split_accuracy ORDER BY ALL"
    pairs = zip(query(victim.home, accuracies).rows, query(calm.home, accuracies).rows, strict=True)
    wrong = [f"{own[:3]}: {own[3]}, not {other[3]}" for own, other in pairs if abs(own[3] - other[3]) > TOLERANCE]
    marked = {entry.reason.split(": going on")[0] for entry in victim.entries() if entry.reason}
    return wrong + ([] if marked == {"out of memory"} else [f"marks: {sorted(marked)}"])


def _row(fault: Fault, outcomes: Sequence[str]) -> Row:
    survived = sum(not outcome for outcome in outcomes)
    return {
        "measure": fault.name,
        "ours": survived,
        "other": len(outcomes),
        "ratio": survived / len(outcomes) if outcomes else None,
        "unit": "survived of tried",
        "note": next(filter(None, outcomes), "") if outcomes else f"not tried: needs {fault.needs}",
    }
