"""`evolora status`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import printable
from flows.cli._app import Json, show

if TYPE_CHECKING:
    from evolora_core.engine.run_index import SuiteId

UNKNOWN = ("seconds", "flops", "finished", "reason")  # of a stage that was not begun


def register(app: App) -> None:
    """Add the command."""
    app.command(status, help_epilogue="Example: `evolora status quickstart`")


def status(
    suite: Annotated[str | None, Parameter(help="Name, id or file of a suite; the latest one by default.")] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """Show the stages of each run with state, seconds since the last start, FLOPs and when they ended (UTC). States:
    done, cached (made before), merged (from a shard), running, failed (why: below), missing (its folder is gone),
    waiting. The FLOPs of `evolve` include those of `calibrate`.
    """
    from evolora_core.engine.run_index import entries, is_made, waiting
    from evolora_core.searches.registry import find_suite
    from evolora_core.store.query import query
    from flows._shards import came_in_shards

    home = home_path()
    found = find_suite(home, suite) if suite else latest(home)
    rows: list[dict[str, Any]] = [
        {
            "run": entry.run_id,
            "stage": entry.stage,
            "state": "missing" if entry.state in ("done", "cached") and not is_made(home, entry) else entry.state,
            "seconds": entry.seconds,
            "flops": entry.flops,
            "finished": entry.finished,
            "reason": entry.reason,
        }
        for entry in sorted(entries(home, found), key=lambda entry: entry.started or "")
    ]
    if came_in_shards(home, found):
        known = {(row["run"], row["stage"]) for row in rows}
        sql = "SELECT run_id, stage, seconds, flops FROM stages WHERE suite = ? ORDER BY run_id, stage"
        merged = [row for row in query(home, sql, [str(found)]).rows if row[:2] not in known]
        rows = [
            {"run": run, "stage": stage, "state": "merged", "seconds": seconds, "flops": flops}
            | {"finished": None, "reason": None}
            for run, stage, seconds, flops in merged
        ] + rows
    rows += [
        {"run": f"{found}.{run}", "stage": stage, "state": "waiting"} | dict.fromkeys(UNKNOWN)
        for run, _, stage in (name.rpartition(".") for name in waiting(home, found))
        if (f"{found}.{run}", stage) not in {(row["run"], row["stage"]) for row in rows}  # merged from a shard
    ]
    if json:
        show(rows, True)
    elif rows:
        print(f"{found}:")
        show([_short(row, found) for row in rows], False)
        if reasons := [f"{row['run']}.{row['stage']}: {printable(row['reason'])}" for row in rows if row["reason"]]:
            print("", *reasons, sep="\n")
    else:
        print(f"{found}: was begun, and has no stage yet; a run that starts takes a minute to plan", file=sys.stderr)


def _short(row: dict[str, Any], suite: "SuiteId") -> dict[str, Any]:
    """A row for people: without the suite, the year and parts of seconds. Its reason stands below the table."""
    seconds, finished = row["seconds"], row["finished"]
    return {
        "run": row["run"].removeprefix(f"{suite}."),
        "stage": row["stage"],
        "state": row["state"],
        "seconds": seconds and round(seconds),
        "flops": row["flops"],
        "finished": finished and finished[5:16].replace("T", " "),
    }


def latest(home: Path) -> "SuiteId":
    """The suite that was started last. ConfigError where none was."""
    from evolora_core.engine.run_index import suites

    if known := suites(home):
        return known[-1]
    raise ConfigError(
        f"{home}: no suite has been run yet; start one with `evolora run SUITE.yaml` (one that was submitted is known "
        "once its flow starts)"
    )
