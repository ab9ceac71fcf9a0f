"""`evolora serve`."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError, StageError
from flows.cli._app import AtLeastOne


def register(app: App) -> None:
    """Add the command."""
    app.command(serve, help_epilogue="Example: `evolora serve --nightly`, then `prefect deployment run paper-suite`")


def serve(
    *,
    nightly: Annotated[
        bool,
        Parameter(
            help="Run every night: the default suite at 02:00 UTC, merges 04:00, attention 06:00, benchmarks 08:00."
        ),
    ] = False,
    limit: Annotated[
        int, Parameter(help="Flow runs at a time; a suite has several processes already."), AtLeastOne
    ] = 1,
) -> None:
    """Serve all deployments until stopped, with a Prefect server if none answers."""
    home = prepare_home()
    from filelock import Timeout

    from flows._preflight import SUITES

    missing = [suite for suite in SUITES.values() if not Path(suite).is_file()]
    if nightly and missing:
        raise ConfigError(f"--nightly: {Path.cwd()} has no {missing[0]}; start it in the folder of the project")
    from flows._server import known_server, serve_lock, shared_prefect

    try:
        alone = serve_lock(home).acquire(timeout=0)
    except Timeout:
        raise StageError(f"{home}: `evolora serve` runs there already; stop it, or set another EVOLORA_HOME") from None
    if (known := known_server(home)) is None:
        print("starting Prefect's server and reading all flows", file=sys.stderr)
    else:
        print(f"joining the Prefect server at {known}, and reading all flows", file=sys.stderr)
    with alone, shared_prefect(home) as url:
        from flows._crashed import report_killed
        from flows.serve import serve_deployments

        report_killed()
        print(f"Prefect: {url.removesuffix('/api')}", flush=True)
        serve_deployments(nightly=nightly, limit=limit)
    print("stopped; a suite that was under way goes on with `evolora retry`", file=sys.stderr)
