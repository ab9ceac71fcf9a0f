"""How stages measure: a judge of what a stage is given, and tables of rows that a killed stage goes on with."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evolora_core.engine.artifacts import write_json
from evolora_core.engine.commits import commit, latest
from evolora_core.engine.meter import Meter
from evolora_core.engine.stage import Work
from evolora_core.engine.tables import read_table, write_table
from evolora_core.searches.merging.judging.judge import Judge
from evolora_core.searches.merging.judging.scoring import Questions
from evolora_core.searches.merging.pool import pool_of
from evolora_core.searches.merging.stages.datasets import read_split

TOGETHER = 100  # rows between two commits


def judge_of(work: Work[Any], splits: Sequence[str]) -> Judge:
    """Base and parents of a work, and the questions of these splits."""
    pool, domains, folder = pool_of(work, work.config.parents), work.config.domains, work.inputs["datasets"]
    weights = {name: domain.weight for name, domain in domains.items()}
    return Judge(
        pool, {split: Questions.of(pool.host, read_split(folder, split, domains), weights) for split in splits}
    )


def measure_rows(
    work: Work[Any],
    judge: Judge,
    table: str,
    count: int,
    measured: Callable[[int], dict[str, Any]],
    what: str,
    begin: Callable[[int], None] = lambda done: None,
) -> None:
    """Leaves a table of so many rows, each measured by its number, and `compute`. A killed one goes on from its last
    commit.

    what   is measured, for the progress
    begin  is told how many rows there are already, before any is measured
    """
    checkpoints = work.folder / ".work" / "checkpoints"
    rows: list[dict[str, Any]] = []
    done = 0
    if last := latest(checkpoints):
        done = last.number
        rows = [row for segment in last.segments for row in read_table(segment, table)]
    begin(len(rows))
    if last:
        judge.meter = Meter.from_state(json.loads((last.folder / "meter.json").read_text(encoding="utf-8")))
    while len(rows) < count:
        added = [measured(number) for number in range(len(rows), min(len(rows) + TOGETHER, count))]
        rows += added
        done += 1
        _commit(checkpoints, done, judge.meter, table, added)
        work.report(len(rows), count, what)
    write_table(work.folder, table, rows)
    write_table(work.folder, "compute", judge.meter.rows())


def _commit(checkpoints: Path, number: int, meter: Meter, table: str, added: list[dict[str, Any]]) -> None:
    def write(into: Path) -> None:
        write_json(into / "meter.json", meter.state())

    def append(into: Path) -> None:
        write_table(into, table, added)

    commit(checkpoints, number, write, append)
