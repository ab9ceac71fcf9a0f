"""`evolora serve-run`."""

import os
import sys
from typing import Annotated

from cyclopts import App, Parameter, validators

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError
from flows.cli._app import AtLeastOne
from flows.cli.ask import Router, Run

TOKEN = "EVOLORA_TOKEN"


def register(app: App) -> None:
    """Add the command."""
    app.command(
        serve_run, name="serve-run", help_epilogue="Example: `evolora serve-run quickstart.ecology.s0 --port 8000`"
    )


def serve_run(
    run: Run,
    /,
    *,
    address: Annotated[str, Parameter(help="Where to listen; another than a local one needs a token.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="0 takes any free one.", validator=validators.Number(gte=0, lte=65535))] = 8000,
    routing: Router = "",
    max_new_tokens: Annotated[
        int, Parameter(help="The most tokens of an answer that a client may ask for."), AtLeastOne
    ] = 1024,
) -> None:
    """Serve a finished run at an OpenAI-compatible address until Ctrl-C. Models: RUN (routed), RUN:3
    (organelle 3), RUN:host (bare host). If EVOLORA_TOKEN is set, clients must send it as their key.

    One question is answered at a time, and up to 32 wait. More are refused with HTTP 429 and a Retry-After, after which
    OpenAI's clients ask again by themselves.
    """
    home = prepare_home()
    from evolora_core.searches.adapters.evolved import only_host, open_run
    from flows._openai import LOCAL, listen

    token = os.environ.get(TOKEN, "")
    if address not in LOCAL and not token:
        raise ConfigError(
            f"--address {address}: others could ask too; set {TOKEN} to a token that clients have to send"
        )
    print(f"{run}: loading", file=sys.stderr)
    evolved = open_run(home, run, routing=routing)
    if evolved.routes and (bare := only_host([evolved.routes])):
        print(bare, file=sys.stderr)
    try:
        listen(evolved, run, address, port, token, max_new_tokens)
    except KeyboardInterrupt:  # that is how it ends
        print("stopped", file=sys.stderr)
