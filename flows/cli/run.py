"""`evolora run`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from evolora_core.searches.base import Experiment


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
    packs: Annotated[Path, Parameter(help="The folder that gets the pack.")] = Path("packs"),
    only: Annotated[
        list[str] | None,
        Parameter(help="A seed (s3), run (ecology.s3) or stage, with what it needs and no pack; may be repeated."),
    ] = None,
) -> None:
    """Run a suite end to end, in this process and its workers. Stages that are done are reused; a killed one
    resumes.
    """
    from evolora_core.searches.registry import load_experiment

    config = load_experiment(suite, settings or [])
    if only:
        only = runs_of(config, only)
    run_and_show(config, packs, only or [])


def runs_of(config: "Experiment", words: Sequence[str]) -> list[str]:
    """The runs and stages that words name, `s3` being every run of seed 3. Raises ConfigError for a seed that the suite
    does not have.
    """
    from evolora_core.errors import ConfigError

    found = []
    for word in words:
        seed = word.removeprefix("s")
        if word == seed or not seed.isdigit():
            found.append(word)
        elif int(seed) in config.seeds:
            found += [f"{condition}.{word}" for condition in config.conditions]
        else:
            raise ConfigError(f"{word}: {config.name} has no such seed; it has {', '.join(map(str, config.seeds))}")
    return found


def run_and_show(config: "Experiment", packs: Path, only: Sequence[str] = ()) -> None:
    """Run a suite, or some of its runs and stages, and print what it found."""
    from evolora_core.engine.home import prepare_home

    home = prepare_home()
    from evolora_core.engine.run_index import begin
    from evolora_core.engine.strict import stated
    from evolora_core.searches.registry import suite_id
    from flows._preflight import check_machine, check_suite
    from flows._server import embedded_prefect

    check_machine(config)
    check_suite(config, packs / config.name)
    suite = suite_id(config)
    begin(home, suite, stated(config), packs)  # from here on `evolora retry` knows it
    with embedded_prefect(home):
        from flows.paper_suite import paper_suite
        from tasks._worker import show_log

        show_log()
        done = paper_suite(str(suite), only=list(only), packs=str(packs))
    if not done["pack"]:
        print(f"made; the pack was left as it is; `evolora retry {suite}` builds it again")
        return

    from evolora_core.report import Contents
    from evolora_core.searches.registry import sections_of

    found = Contents(home, done["suite"], sections=sections_of(config))
    table = found.headline
    print(f"\n{table.caption}\n\n{table.to_markdown()}")
    if found.comparisons:
        print(found.tables["comparisons"][0].to_markdown())
    print(f"pack: {done['pack']}")
