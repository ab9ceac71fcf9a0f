"""`evolora retry`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path
from evolora_core.errors import ConfigError, EvoloraError
from flows.cli._app import Json, show
from flows.cli.run import Made, make
from flows.cli.status import latest

if TYPE_CHECKING:
    from evolora_core.engine.run_index import SuiteId


def register(app: App) -> None:
    """Add the command."""
    app.command(retry, help_epilogue="Example: `evolora retry`, `evolora retry quickstart.ecology.s0.evolve`")


def retry(
    *names: Annotated[
        str,
        Parameter(
            name="WHAT",
            help="A suite (name, id or file), seed (quickstart.s0), condition (quickstart.ecology), run "
            "(quickstart.ecology.s0) or stage (quickstart.ecology.s0.evolve); may be repeated. By default the suite "
            "that was begun last.",
        ),
    ],
    json: Json = False,
) -> None:
    """Run again only what failed or is missing, of suites that were begun. Needs no suite file; packs go where they
    went before.
    """
    from evolora_core.engine.identity import code_as_it_is
    from evolora_core.searches.registry import find_suite

    home = home_path()
    wanted: dict[SuiteId, list[str]] = {}
    for name in names or [str(_last(home))]:
        word, _, rest = (name, "", "") if name.endswith((".yaml", ".yml")) else name.partition(".")
        wanted.setdefault(find_suite(home, word), []).append(rest)
    rows: list[dict[str, Any]] = []
    failures: list[EvoloraError] = []
    with code_as_it_is():
        for suite, only in wanted.items():
            try:
                done = _again(home, suite, only if all(only) else [])
            except EvoloraError as error:  # the other suites go on
                failures.append(error)
                continue
            rows += done.rows() if json else []
            if not json:
                done.tell()
    if json and (rows or not failures):
        show(rows, True)
    for failure in failures[1:]:
        print(f"error: {failure}", file=sys.stderr)
    if failures:
        raise failures[0]


def _last(home: Path) -> "SuiteId":
    """The suite that was begun last here. One that came in shards has nothing to be made again."""
    from evolora_core.engine.run_index import read_packs, suites
    from flows._shards import came_in_shards

    if begun := [own for own in suites(home) if read_packs(home, own) or not came_in_shards(home, own)]:
        return begun[-1]
    raise ConfigError(f"{latest(home)}: came in shards, and no suite was begun in {home}; name the one to make here")


def _again(home: Path, suite: "SuiteId", only: list[str]) -> Made:
    """Make what is missing of a suite, or of some of its runs and stages; of one that came in shards what the store
    lacks.
    """
    from evolora_core.engine.run_index import read_packs
    from evolora_core.searches.registry import suite_id
    from flows._preflight import asked_suite
    from flows._shards import came_in_shards, lacking

    packs = read_packs(home, suite) or Path("packs")
    config = asked_suite(str(suite))
    if (now := suite_id(config)) != suite:
        print(f"{suite}: has other settings in this version of evolora; it is made anew as {now}", file=sys.stderr)
    if not only and came_in_shards(home, now):
        only = lacking(home, now)
        if not only:
            raise ConfigError(f"{now}: nothing of it is missing; `evolora pack {now}` compares and packs it")
    return make(config, packs, only)
