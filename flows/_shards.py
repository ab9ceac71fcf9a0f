"""What closes a suite that was joined from shards: its comparisons, which no shard can have."""

import json
import time
from pathlib import Path

from evolora_core.artifacts import commit, partial_folder
from evolora_core.run_index import SuiteId, now, write_entry
from flows._preflight import asked_suite
from tasks import compare
from tasks._stage import StageResult, Suite


def compare_merged(home: Path, suite: str) -> list[int]:
    """Compare the seeds that the store has in every condition, as the stage `compare` would have; returns them. There
    may be none yet.
    """
    from evolora_core.evaluation.comparisons import write_tables
    from evolora_core.report.stored import StoredSuite
    from evolora_core.store import Slice, query, record

    stored = StoredSuite(home, suite)
    if not stored.seeds:
        return []
    config = asked_suite(suite)
    name, _, hashed = suite.rpartition("-")
    made = Suite(config, SuiteId(name, hashed), {}, {})
    sql = (
        "SELECT condition, seed, stage, folder, identity, seconds, flops, manifest FROM stages JOIN complete_seeds "
        "USING (suite, seed) WHERE suite = ? AND stage = 'evaluate'"
    )
    rows = [row | {"summary": json.loads(row["manifest"])["summary"]} for row in query(home, sql, [suite]).records()]
    results = {(row["condition"], row["seed"]): StageResult.model_validate(row) for row in rows}
    order = [(condition, seed) for condition in config.conditions for seed in stored.seeds]
    request = compare.request(made, evaluations=[results[run] for run in order])
    clock, started = time.perf_counter(), now()
    tables = stored.counted()
    write_tables(tables, partial_folder(home / request.folder))
    verdicts = {f"{row['a']} vs {row['b']} on {row['split']}": row["verdict"] for row in tables["comparisons"]}
    seconds = round(time.perf_counter() - clock, 3)
    times = {"started": started, "finished": now(), "seconds": seconds, "flops": 0}
    facts = {key: getattr(request, key) for key in ("stage", "condition", "seed", "identity", "lineage")}
    document = {"identity_document": request.identity_document, "summary": {"verdicts": verdicts}, "warnings": []}
    commit(home / request.folder, facts | times | document)
    write_entry(home, request.suite_id, request.entry("done", **times))
    run_id = request.suite_id.run_id(request.condition, request.seed)
    record(home, Slice(suite, run_id, request.condition, request.seed, request.stage, Path(request.folder)))
    return stored.seeds
