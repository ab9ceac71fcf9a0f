"""`record`: load what a stage left into the store. Never cached, so that a new store fills up from stages that are."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from evolora_core.engine.home import home_path
from evolora_core.engine.stage import StageResult
from tasks.stage import is_fault


@task(
    name="record",
    task_run_name="record {result.label}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=3,
    retry_delay_seconds=[1, 5, 20],
    retry_jitter_factor=1.0,
    retry_condition_fn=is_fault,
)
def record(suite: str, result: StageResult) -> dict[str, int]:
    """Replace the slice of one stage of a suite id; returns rows per table."""
    from evolora_core.store import Slice
    from evolora_core.store import record as load

    run_id = f"{suite}.{result.condition}.s{result.seed}"
    part = Slice(suite, run_id, result.condition, result.seed, result.stage, Path(result.folder))
    return load(home_path(), part)
