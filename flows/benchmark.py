"""The deployment `benchmark`: benchmarks one after the other, each kept in the store, and a page of their history."""

import os
import shlex
import subprocess
import sys
from typing import Annotated

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from pydantic import Field

from evolora_core.engine.home import home_path
from evolora_core.errors import StageError
from evolora_core.foreign.text import one_line

BENCHES = (
    "engine", "merge", "placebo", "attention", "attention-placebo", "ecology", "orchestration", "faults",
)  # fmt: skip
WORDS = rf"^({'|'.join(BENCHES)})( [^\n]*)?$"
NIGHT = ["engine", "ecology", "orchestration --set 'seeds=[0]'"]


@flow(name="benchmark")
def benchmark(
    benches: list[Annotated[str, Field(pattern=WORDS)]] = NIGHT, last: Annotated[int, Field(ge=1)] = 10
) -> str:
    """Measure, and show the history of all that was ever measured; returns that page.

    Raises StageError at the end if a benchmark failed; the others are made all the same.

    Args:
        benches: What to measure, one after the other: a benchmark and its options, as after `evolora bench`.
        last: Measurements of each ratio that the page shows.
    """
    from evolora_core.report.benchmarks import history_page  # DuckDB complains at exit if imported with the flows

    states = [measure.with_options(name=f"bench {words}")(words, return_state=True) for words in benches]
    page = history_page(home_path(), last)
    create_markdown_artifact(page, key="benchmark-history", description="Ratios of benchmarks over time")
    failures = [state.message for state in states if not state.is_completed()]
    if failures:
        raise StageError(f"benchmark: {'; '.join(str(own) for own in failures)}")
    return page


@task(persist_result=False)
def measure(words: str) -> None:
    """Run one benchmark in a process of its own: what another one left in memory is no part of it. Nor is our Prefect
    server: a benchmark that needs one starts its own.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-m", "flows.cli", "bench", *shlex.split(words)]
    environment = own | {"EVOLORA_HOME": str(home_path())}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as bench:
        try:
            _, told = bench.communicate()
        except BaseException:
            bench.terminate()  # not killed: it ends what it has started
            bench.communicate()
            raise
    if bench.returncode:
        said = told.strip().splitlines() or [f"exit code {bench.returncode}"]
        raise StageError(f"bench {words}: {one_line(said[-1]).removeprefix('error: ')}")
