"""`evolora bench …`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.cli._app import Json, show

Suite = Annotated[Path, Parameter(help="The suite to run.")]
Settings = Annotated[list[str] | None, Parameter(name="--set", help="KEY=VALUE of the suite; may be repeated.")]


def register(app: App) -> None:
    """Add the commands."""
    bench = App(name="bench", help="Benchmarks: a table, kept in the store (`evolora sql 'from benchmarks'`).")
    app.command(bench)
    bench.command(orchestration, help_epilogue="Example: `evolora bench orchestration --set 'seeds=[0]'`")
    bench.command(faults, help_epilogue="Example: `evolora bench faults --kills 5`")


def orchestration(
    *,
    suite: Suite = Path("configs/suites/quickstart.yaml"),
    settings: Settings = None,
    repeats: Annotated[int, Parameter(help="Runs of each; the medians are compared.")] = 1,
    json: Json = False,
) -> None:
    """Run a suite through Prefect, and its stage functions in a plain loop."""
    from evolora_core.config import load_suite
    from flows.bench.orchestration import measure

    _keep("orchestration", measure(load_suite(suite, settings or []), repeats), json)


def faults(
    *,
    suite: Suite = Path("configs/suites/tiny.yaml"),
    settings: Settings = None,
    kills: Annotated[int, Parameter(help="Random moments at which each kind of process is killed.")] = 10,
    seed: Annotated[int, Parameter(help="Seed of the random moments.")] = 0,
    only: Annotated[
        list[str] | None, Parameter(help="Part of the names of the faults to try; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Do to a suite what a night can do to it; afterwards its tables must be those of an undisturbed run."""
    from evolora_core.config import load_suite
    from flows.bench.faults import measure

    _keep("faults", measure(load_suite(suite, settings or []), kills, seed, only or []), json)


def _keep(bench: str, rows: list[dict], as_json: bool) -> None:
    from evolora_core.home import prepare_home
    from evolora_core.store import record_benchmark

    show(rows, as_json)
    record_benchmark(prepare_home(), bench, rows)
