"""`evolora host …`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from flows.cli._app import Json, show

Name = Annotated[str, Parameter(help="A host of `evolora host list`, a hub id, a folder or a GGUF file.")]


def register(app: App) -> None:
    """Add the commands."""
    host = App(name="host", help="Frozen language models.", help_epilogue="")
    app.command(host)
    host.command(list_, name="list", help_epilogue="Example: `evolora host list --json`")
    host.command(show_, name="show", help_epilogue="Example: `evolora host show nano`")
    host.command(fetch, help_epilogue="Example: `evolora host fetch smollm2-135m-q4`")
    host.command(pretrain, help_epilogue="Example: `evolora host pretrain nano --out my-nano`")


def list_(*, json: Json = False) -> None:
    """List the hosts that are described in configs/hosts."""
    from evolora_core.language.hosts.catalog import list_hosts

    rows = [asdict(listed) for listed in list_hosts()]
    show(rows if json else [{key: value for key, value in row.items() if key != "folder"} for row in rows], json)


def show_(name: Name, /, *, json: Json = False) -> None:
    """Load a host and show what it is: sizes, the hashes of its weights, tokenizer and template, and its folder."""
    prepare_home()
    from evolora_core.language.hosts.catalog import find_host
    from evolora_core.language.hosts.host import load_host

    host = load_host(name)
    facts = host.identity | {"folder": str(find_host(name).path)}
    facts |= {"max_context": host.max_context, "architecture": type(host.model).__name__}
    facts["prompt"] = one_line(host.tokenizer.decode(host.encode_prompts(["PROMPT"])[0]), 300)
    show([{"fact": fact, "value": value} for fact, value in facts.items()] if not json else [facts], json)


def fetch(name: Name, /) -> None:
    """Fetch a host's weights into EVOLORA_HOME. Does nothing if they are there; delete the folder to fetch anew."""
    prepare_home()
    from evolora_core.language.hosts.fetch import fetch_host

    print(fetch_host(name))


def pretrain(
    name: Annotated[str, Parameter(help="A host of our own, such as nano.")],
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(help="Folder to write; by default EVOLORA_HOME/hosts/NAME, for a shipped host NAME-pretrained."),
    ] = None,
) -> None:
    """Train a host of our own from nothing."""
    if out and out.exists() and not out.is_dir():  # before Prefect is started for it
        raise ConfigError(f"--out {out}: is no folder; name a new one")
    from evolora_core.language.hosts.pretrain_config import pretrain_config

    pretrain_config(name)  # a fault of it
    home = prepare_home()
    from flows._server import embedded_prefect

    with embedded_prefect(home):
        from flows.pretrain_host import pretrain_host_flow
        from tasks._worker import show_log

        show_log()
        done = pretrain_host_flow(name, str(out) if out else "")
    print(f"{done['folder']}: {done['parameters']} parameters, {done['tokens']} tokens, {done['flops']:.3g} FLOPs")
