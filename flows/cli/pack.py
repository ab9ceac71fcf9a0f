"""`evolora pack` and `evolora pack verify`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter


def register(app: App) -> None:
    """Add the commands."""
    pack = App(name="pack", help="Build the paper pack of a suite, or verify one.", help_epilogue="")
    app.command(pack)
    pack.default(build)
    pack.help_epilogue = "Example: `evolora pack quickstart --out my-pack`"
    pack.command(verify, help_epilogue="Example: `evolora pack verify packs/quickstart`")


def build(
    suite: Annotated[str, Parameter(help="Name, id or file of a suite.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Folder to write; by default packs/NAME.")] = None,
) -> None:
    """Build the paper pack of a suite from the store."""
    from evolora_core.home import prepare_home
    from evolora_core.report.pack import build as build_pack
    from evolora_core.run_index import find_suite

    home = prepare_home()
    found = find_suite(home, suite)
    print(build_pack(home, str(found), out or Path("packs") / found.name))


def verify(folder: Annotated[Path, Parameter(help="The folder of a pack.")], /) -> int:
    """Recompute every number of a pack from the store; exits with 1 and names each difference if there is any."""
    from evolora_core.home import prepare_home
    from evolora_core.report.pack import verify as verify_pack

    home = prepare_home()
    differences = verify_pack(home, folder)
    for difference in differences:
        print(difference)
    if not differences:
        print(f"{folder}: every number follows from the store")
    return int(bool(differences))
