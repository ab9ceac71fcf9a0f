"""Makes `prefect deployment run paper-suite` work as it stands: with the bare name, with the server of `evolora serve`,
and with parameters that are checked before they are sent. Keeps Prefect's telemetry off.

Prefect wants FLOW/DEPLOYMENT and has no option for less; ours are named alike. The hook runs while Prefect is
imported, before its command line is read. Prefect enables plugins by `[tool.prefect.plugins]` of the working
directory's pyproject.toml.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect.plugins import HookContext, SetupResult, register_hook

from evolora_core.engine.home import environment, prepare_home
from evolora_core.errors import ConfigError, EvoloraError
from flows._server import is_served, known_server, refuse_silent

SECONDS = 120.0  # that a server which starts is waited for


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult:
    """Set what Prefect reads from its environment; for Prefect's own command line, complete a bare deployment name and
    refuse parameters with which the run would fail at once.
    """
    if Path(sys.argv[0]).name != "prefect":
        return SetupResult(env={"DO_NOT_TRACK": "1"})
    sys.argv[:] = full_name(sys.argv)
    submits = sys.argv[1:3] == ["deployment", "run"]
    try:
        home = prepare_home()  # a hub's host is looked for, and may be fetched, before anything is sent
        if submits and (why := refusal(sys.argv[3:])):
            raise ConfigError(why)
        if (url := known_server(home)) and submits:
            refuse_silent(url)
    except EvoloraError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    if submits and not url and is_served(home):
        print("waiting for the address of `evolora serve`, which may still start", file=sys.stderr)
        until = time.monotonic() + SECONDS  # one that wants a key never shows here
        while not (url := known_server(home)) and is_served(home) and time.monotonic() < until:
            time.sleep(1)
    if submits and not url:
        print(
            f"note: no server of `evolora serve` answers for {home}; what is submitted now waits until one starts "
            "there (set PREFECT_API_URL if it joined a server that wants a key)",
            file=sys.stderr,
        )
    server = {"PREFECT_API_URL": url} if url else {}
    return SetupResult(env={name: os.environ.get(name, value) for name, value in (environment(home) | server).items()})


def full_name(arguments: Sequence[str]) -> list[str]:
    """`… deployment run NAME …` with NAME/NAME in place of a bare name."""
    if list(arguments[1:3]) != ["deployment", "run"] or len(arguments) < 4:
        return list(arguments)
    name = arguments[3]
    if name.startswith("-") or "/" in name:
        return list(arguments)
    return [*arguments[:3], f"{name}/{name}", *arguments[4:]]


def refusal(words: Sequence[str]) -> str:
    """Why `prefect deployment run` with these words, a deployment and its options, cannot run a suite, in one line; ""
    if it can, or runs no suite.

    What is not of the right type is left to Prefect, which knows the parameters.
    """
    from flows._plan import check_plan
    from flows._preflight import SUITES, asked_suite, check_suite

    flow = words[0].partition("/")[0] if words else ""
    if flow not in SUITES:
        return ""
    given = parameters(words[1:])
    if not all(isinstance(given.get(name, []), list) for name in ("overrides", "seeds", "only")):
        return ""
    try:
        suite = asked_suite(
            given.get("suite", SUITES[flow]),
            given.get("overrides", []),
            given.get("host", ""),
            given.get("seeds", []),
        )
        check_plan(suite, given.get("only", []))
        check_suite(suite, Path(given.get("packs", "packs")) / suite.name)
    except EvoloraError as error:
        return str(error)
    except (TypeError, ValueError):
        return ""
    return ""


def parameters(options: Sequence[str]) -> dict[str, Any]:
    """The parameters in `-p NAME=VALUE`, `--param NAME=VALUE` and `--params JSON`, as Prefect reads them."""
    given: dict[str, Any] = {}
    words = iter(options)
    for word in words:
        option, equals, value = word.partition("=")
        if option in ("-p", "--param", "--params"):
            value = value if equals else next(words, "")
            if option == "--params":
                whole = _json(value)
                given |= whole if isinstance(whole, dict) else {}
            else:
                name, _, text = value.partition("=")
                given[name] = _json(text)
    return given


def _json(text: str) -> Any:
    """A JSON value, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
