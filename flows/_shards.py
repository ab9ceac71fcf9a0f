"""What closes a suite that was joined from shards: its comparisons, which no shard can have; and what it lacks."""

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from evolora_core.engine.artifacts import commit, damage, partial_folder, turn, write_json
from evolora_core.engine.run_index import SuiteId, now, step_name, write_entry
from evolora_core.engine.stage import JUDGED, StageRequest, StageResult, Suite
from evolora_core.errors import ConfigError, StoreError
from evolora_core.searches.comparing import COMPARISON, in_words
from evolora_core.searches.registry import get_search, load_known, sections_of

if TYPE_CHECKING:
    from evolora_core.report.stored import StoredSuite


def check_settings(folder: Path) -> None:
    """StoreError where a shard, which anybody may have made, has settings that make no suite."""
    from evolora_core.store.carried import read, suite_in

    place = folder / "suite.parquet"
    with TemporaryDirectory(prefix="evolora-settings-") as work:
        path = Path(work) / "suite.json"
        write_json(path, suite_in(read(folder))[1])
        try:
            load_known(path)
        except ConfigError as error:
            raise StoreError(str(error).replace(str(path), str(place))) from None


def came_in_shards(home: Path, suite: SuiteId) -> bool:
    """Whether shards of a suite were merged into a home; their stages have rows in the store and no folders."""
    from evolora_core.store.shards import kept_shards

    return any(folder.parent.name == str(suite) for folder in kept_shards(home))


def lacking(home: Path, suite: SuiteId) -> list[str]:
    """The runs, as `ecology.s0`, that a suite declares and of which the store has no evaluation."""
    from evolora_core.report.stored import StoredSuite

    return [run.replace(" ", ".") for run in StoredSuite(home, str(suite)).missing]


def compare_merged(home: Path, suite: str) -> list[int]:
    """Compare the seeds that the store has in every condition, as the stage `compare` would have; returns them. There
    may be none yet.
    """
    from evolora_core.report.stored import StoredSuite
    from evolora_core.store import query

    stored = StoredSuite(home, suite)
    if not stored.seeds:
        return []
    config = load_known(SuiteId.of(suite).index(home) / "suite.json")
    made, search = Suite(config, SuiteId.of(suite)), get_search(config.search)
    sql = (
        "SELECT condition, seed, stage, folder, identity, seconds, flops, manifest FROM stages JOIN complete_seeds "
        f"USING (suite, seed) WHERE suite = ? AND stage = '{JUDGED}'"
    )
    rows = [row | {"summary": json.loads(row["manifest"])["summary"]} for row in query(home, sql, [suite]).records()]
    results = {step_name(row["condition"], row["seed"], JUDGED): StageResult.model_validate(row) for row in rows}
    closing = search.closing(made, stored.seeds, search.plan(made), {})
    compared = next((step for step in closing if step.name == COMPARISON), None)
    if compared is None:  # a search may have nothing to compare
        return stored.seeds
    request = compared.stage.request(**compared.given, evaluations=[results[step.name] for step in compared.needed])
    folder = home / request.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with turn(folder):
        known = query(home, "SELECT 1 FROM stages WHERE suite = ? AND identity = ?", [suite, request.identity]).rows
        if not known or damage(folder) is not None:
            _compare(home, stored, request)
    return stored.seeds


def _compare(home: Path, stored: "StoredSuite", request: StageRequest) -> None:
    """Make the artefact, its entry in the index and its rows in the store."""
    from evolora_core.statistics.comparisons import write_tables
    from evolora_core.store import Slice, record

    clock, started = time.perf_counter(), now()
    tables = sections_of(stored.config).closing(stored)
    write_tables(tables, partial_folder(home / request.folder))
    verdicts = in_words([row for rows in tables.values() for row in rows if "verdict" in row])
    seconds = round(time.perf_counter() - clock, 3)
    times = {"started": started, "finished": now(), "seconds": seconds, "flops": 0}
    facts = {key: getattr(request, key) for key in ("stage", "condition", "seed", "identity", "lineage")}
    document = {"identity_document": request.identity_document, "summary": {"verdicts": verdicts}, "warnings": []}
    commit(home / request.folder, facts | times | document)
    write_entry(home, request.suite, request.entry("done", **times))
    run_id = request.suite.run_id(request.condition, request.seed)
    record(
        home, Slice(str(request.suite), run_id, request.condition, request.seed, request.stage, Path(request.folder))
    )
