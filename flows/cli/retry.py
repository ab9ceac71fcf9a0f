"""`evolora retry`."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.cli._app import Json, show
from flows.cli.run import make


def register(app: App) -> None:
    """Add the command."""
    app.command(retry, help_epilogue="Example: `evolora retry`, `evolora retry quickstart.ecology.s0.evolve`")


def retry(
    *names: Annotated[
        str,
        Parameter(
            name="RUN or STAGE",
            help="Suites, runs (SUITE.CONDITION.sSEED) or stages (RUN.STAGE); all of the latest suite by default.",
        ),
    ],
    json: Json = False,
) -> None:
    """Run again only what failed or is missing, of suites that were begun. Needs no suite file; packs go where they
    went before.
    """
    from evolora_core.engine.home import home_path
    from evolora_core.engine.run_index import SuiteId, read_packs, suites
    from evolora_core.errors import ConfigError
    from evolora_core.searches.registry import find_suite, suite_id
    from flows._preflight import asked_suite

    home = home_path()
    if not suites(home):
        raise ConfigError(f"{home}: no suite has been run yet; start one with `evolora run SUITE.yaml`")
    wanted: dict[SuiteId, list[str]] = {}
    for name in names or [str(suites(home)[-1])]:
        word, _, rest = name.partition(".")
        wanted.setdefault(find_suite(home, word), []).append(rest)
    rows = []
    for suite, only in wanted.items():
        packs = read_packs(home, suite) or Path("packs")
        config = asked_suite(str(suite))
        if (now := suite_id(config)) != suite:
            print(f"{suite}: has other settings in this version of evolora; it is made anew as {now}", file=sys.stderr)
        done = make(config, packs, only if all(only) else [])
        rows += done.rows() if json else []
        if not json:
            done.tell()
    if json:
        show(rows, True)
