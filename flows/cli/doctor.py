"""`evolora doctor`."""

import os
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from cyclopts import App

from evolora_core.engine.home import home_path, set_environment
from evolora_core.errors import StoreError
from flows.cli._app import Json, show

Row = dict[str, str]


def register(app: App) -> None:
    """Add the command."""
    app.command(doctor, help_epilogue="Example: `evolora doctor --json`")


def doctor(*, json: Json = False) -> int:
    """Say what is installed, which hosts and devices can be used, what is missing, and the command that mends it.

    Exits with 1 if something is missing that every suite needs.
    """
    set_environment(home_path())
    rows = [*installed(), home(), store(), *hosts(), *devices(), sandbox(), telemetry()]
    show(rows if json else [{key: own[key] for key in ("what", "state", "detail")} for own in rows], json)
    if not json and (mends := [f"{own['what']}: {own['mend']}" for own in rows if own["mend"]]):
        print("\nWhat is optional or broken, and what mends it:", *mends, sep="\n")
    return int(any(row["state"] == "broken" for row in rows))


def row(what: str, state: str, detail: str, mend: str = "") -> Row:
    """One finding: state is ok, optional (missing or unfit, but not needed) or broken."""
    return {"what": what, "state": state, "detail": detail, "mend": mend}


def installed() -> Iterator[Row]:
    """Python and the libraries, against the bounds of this project."""
    from packaging.requirements import Requirement

    yield row("python", "ok", ".".join(map(str, sys.version_info[:3])))
    for text in metadata.requires("evolora") or []:
        wanted = Requirement(text)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", str(wanted.marker or ""))
        mend = f"pip install -c constraints.txt -e '.[{extra[1]}]'" if extra else "pip install -c constraints.txt -e ."
        bounds = str(wanted.specifier)
        try:
            found = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            yield row(wanted.name, "optional" if extra else "broken", f"not installed, wanted {bounds}", mend)
            continue
        if wanted.specifier.contains(found, prereleases=True):
            yield row(wanted.name, "ok", found)
        else:
            yield row(wanted.name, "optional" if extra else "broken", f"{found}, wanted {bounds}", mend)


def home() -> Row:
    """Whether EVOLORA_HOME can be written."""
    folder = home_path()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK):
        return row("EVOLORA_HOME", "ok", str(folder))
    return row("EVOLORA_HOME", "broken", f"{folder} is not writable", "set EVOLORA_HOME to a folder that is")


def store() -> Row:
    """Whether the store can be read."""
    from evolora_core.store import query, store_path
    from evolora_core.store.connection import Locked

    path = store_path(home_path())
    if not path.exists():
        return row("store", "optional", "none yet", "evolora run configs/suites/quickstart.yaml")
    try:
        stages = query(home_path(), "SELECT count(*) FROM stages").rows[0][0]
    except Locked as error:
        return row("store", "ok", f"{path}, which is in use ({error})")
    except StoreError as error:  # one that is damaged says how it is mended, as does one that is newer
        return row("store", "broken", str(error))
    return row("store", "ok", f"{stages} stages in {path}")


def hosts() -> Iterator[Row]:
    """Hosts that are described, and whether their weights are here."""
    from evolora_core.language.hosts.catalog import list_hosts

    for listed in list_hosts():
        if listed.ready:
            yield row(f"host {listed.name}", "ok", listed.folder)
        else:
            shipped = listed.source == "shipped"
            bring = "pretrain" if listed.source == "trained" else "fetch"
            mend = f"git checkout -- {listed.folder}" if shipped else f"evolora host {bring} {listed.name}"
            yield row(f"host {listed.name}", "broken" if shipped else "optional", "weights are not here", mend)


def devices() -> Iterator[Row]:
    """What torch can compute on."""
    import torch

    yield row("device cpu", "ok", f"{os.cpu_count()} cores, torch {torch.__version__}")
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            yield row(f"device cuda:{number}", "ok", torch.cuda.get_device_name(number))
    else:
        yield row("device cuda", "optional", "none in reach; suites run on the CPU")


def sandbox() -> Row:
    """Whether programs of others can be confined here."""
    from evolora_core.sandbox.run import refusal

    if why := refusal():
        return row("sandbox", "optional", f"attention programs, and tasks whose verifier is `code`, are refused: {why}")
    return row("sandbox", "ok", "programs of others run confined (Landlock, seccomp)")


def telemetry() -> Row:
    """Whether anything would be sent."""
    off = {
        "DO_NOT_TRACK": ("1", "true"),
        "HF_HUB_DISABLE_TELEMETRY": ("1", "true"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": ("0", "false"),
    }
    on = [name for name, values in off.items() if os.environ.get(name, "").lower() not in values]
    if on:
        return row("telemetry", "broken", f"on: {', '.join(on)} is set otherwise", f"unset {' '.join(on)}")
    return row("telemetry", "ok", "off")
