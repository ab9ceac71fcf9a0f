"""What orchestration costs: a suite through Prefect against the same stage functions called in a plain loop.

What the stages compute varies from run to run by more than Prefect takes, so that is measured directly too: the seconds
outside of the stages, and the CPU seconds of the threads that run beside them.

Both run in a fresh process and home, stage after stage in one thread of that process, and record what they make.
Also the program that such a process runs: `python -m flows.bench.orchestration prefect|plain SUITE.json`.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from evolora_core.engine.artifacts import write_json
from evolora_core.engine.home import elsewhere
from evolora_core.engine.run_index import entries, suites
from evolora_core.engine.strict import stated
from evolora_core.errors import StageError
from evolora_core.searches.base import Experiment
from flows.bench.timing import Row, row


def measure(config: Experiment, repeats: int) -> list[Row]:
    """Wall seconds of both, medians over `repeats`, one after the other each time."""
    config = config.model_copy(update={"processes": 1, "threads": 1, "workers": "processes"})
    times: dict[str, list[dict[str, float]]] = {"prefect": [], "plain": []}
    for repeat in range(repeats):
        for way in ("prefect", "plain") if repeat % 2 == 0 else ("plain", "prefect"):
            times[way].append(_run(way, config))

    def both(part: str) -> tuple[float, float]:
        """Medians through Prefect and in the plain loop."""
        return median(run[part] for run in times["prefect"]), median(run[part] for run in times["plain"])

    _, plain = both("seconds")
    ours, other = both("outside")
    stages = int(times["plain"][0]["stages"])
    which = f"{config.name}, {stages} stages"
    return [
        row("suite", *both("seconds"), "s", f"{which}, start-up aside; median of {repeats}"),
        row("outside the stages", ours, other, "s", f"{which}: its seconds without those that its stages computed"),
        row("overhead", 100 * (ours - other) / plain, None, "%", "of the plain suite, by what is outside the stages"),
        row("beside the stages", *both("beside"), "s", f"{which}: CPU seconds of the other threads of the process"),
        row("a stage", (ours - other) / stages, None, "s", "what Prefect adds to each"),
        row("start-up", *both("start"), "s", f"{which}: server and imports, until the first stage"),
    ]


def _run(way: str, config: Experiment) -> dict[str, float]:
    """One run in a home of its own, and in our working directory, where the suite's relative paths lead; its clock."""
    with tempfile.TemporaryDirectory(prefix="evolora-bench-") as folder:
        suite = Path(folder) / "suite.json"
        write_json(suite, stated(config))
        done = subprocess.run(
            [sys.executable, "-m", "flows.bench.orchestration", way, str(suite)],
            env=elsewhere() | {"EVOLORA_HOME": str(Path(folder) / "home")},
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise StageError(f"bench orchestration: the suite failed ({way}); its own error is above")
        clock = dict(json.loads(done.stdout.splitlines()[-1]))
        home = Path(folder) / "home"
        computed = sum(entry.seconds or 0.0 for entry in entries(home, suites(home)[-1]))
        return clock | {"outside": clock["seconds"] - computed}


def _through_prefect(suite: Path, home: Path) -> dict[str, float]:
    from flows._server import embedded_prefect

    with embedded_prefect(home):
        from flows.paper_suite import paper_suite

        started = time.perf_counter()
        paper_suite(str(suite), packs=str(suite.parent / "packs"))
        return {"started": started, "ended": time.perf_counter()}


def _in_a_loop(suite: Path, home: Path) -> dict[str, float]:
    from evolora_core.engine.run_index import write_suite
    from evolora_core.engine.stage import StageResult, Suite
    from evolora_core.searches.packing import PACK
    from evolora_core.searches.registry import get_search, load_experiment, sections_of, suite_id
    from flows._preflight import use_host
    from flows._publish import publish
    from flows._suite import complete_seeds
    from tasks._worker import start_worker
    from tasks.record import record
    from tasks.stage import perform

    config = load_experiment(suite)
    search = get_search(config.search)
    start_worker(config.threads)
    started = time.perf_counter()
    made = Suite(config, suite_id(config), use_host(config))
    write_suite(home, made.id, stated(config))
    results: dict[str, StageResult] = {}

    steps = search.plan(made)
    for closes in (False, True):
        last = search.closing(made, complete_seeds(config, results), steps, dict(results)) if closes else steps
        for step in last:
            asked = step.stage.request(**step.given, **step.needs_from(results))
            results[step.name] = perform(asked, step.stage)
            record.fn(str(made.id), results[step.name])
    publish(results[PACK], suite.parent / "packs" / config.name, sections_of(config))
    return {"started": started, "ended": time.perf_counter(), "stages": len(results)}


def main() -> None:
    """Run one way; the last line of the output is its clock as JSON."""
    from evolora_core.engine.home import prepare_home

    way, suite = sys.argv[1:]
    begun = time.perf_counter()
    run = _through_prefect if way == "prefect" else _in_a_loop
    clock = run(Path(suite), prepare_home())
    beside = time.process_time() - time.thread_time()
    print(
        json.dumps(
            {
                "seconds": clock["ended"] - clock["started"],
                "start": clock["started"] - begun,
                "stages": clock.get("stages", 0),
                "beside": beside,
            }
        )
    )


if __name__ == "__main__":
    main()
