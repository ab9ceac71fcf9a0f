"""`evolora run`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter


def register(app: App) -> None:
    """Add the command."""
    app.command(run, help_epilogue="Example: `evolora run configs/suites/quickstart.yaml --set ecology.generations=4`")


def run(
    suite: Annotated[Path, Parameter(help="A suite file.")],
    /,
    *,
    settings: Annotated[
        list[str] | None,
        Parameter(name="--set", help="KEY=VALUE with a dotted key, such as ecology.generations=4; may be repeated."),
    ] = None,
) -> None:
    """Run a suite end to end, in this process and its workers. Stages that are done are reused; a killed one
    resumes.
    """
    from evolora_core.config import load_suite
    from evolora_core.home import prepare_home

    config = load_suite(suite, settings or [])
    home = prepare_home()
    from flows._embedded import embedded_prefect
    from flows._preflight import check_suite

    check_suite(config, Path("packs") / config.name)
    with embedded_prefect(home):
        from flows.paper_suite import paper_suite
        from tasks._worker import show_log

        show_log()
        done = paper_suite(str(suite), settings or [])

    from evolora_core.report.tables import comparison_table, paper_table

    table = paper_table(home, done["suite"])
    print(f"\n{table.caption}\n\n{table.to_markdown()}")
    if config.evaluation.comparisons:
        print(comparison_table(home, done["suite"]).to_markdown())
    print(f"pack: {done['pack']}")
