"""`evolora pack`, `evolora pack verify` and `evolora pack export`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.foreign.text import printable


def register(app: App) -> None:
    """Add the commands."""
    pack = App(name="pack", help="Build the paper pack of a suite, verify one, or export it.", help_epilogue="")
    app.command(pack)
    pack.default(build)
    pack.help_epilogue = "Example: `evolora pack quickstart --out my-pack` or `evolora pack packs/quickstart`"
    pack.command(verify, help_epilogue="Example: `evolora pack verify packs/quickstart`")
    pack.command(export, help_epilogue="Example: `evolora pack export packs/quickstart --to latex --to svg`")


def build(
    suite: Annotated[str, Parameter(help="Name, id or file of a suite; or the folder of a pack.")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder to write; by default packs/NAME, or the folder of the pack.")
    ] = None,
) -> None:
    """Build the paper pack of a suite from the store; or build a pack anew from the rows that it carries, with the
    comparisons, words and plots of this version.
    """
    from evolora_core.report import build as build_pack
    from evolora_core.report import build_anew
    from evolora_core.report.pack_folder import STAMP, read_stamp
    from evolora_core.report.stored import StoredSuite
    from evolora_core.searches.registry import find_suite, sections_of
    from flows._shards import came_in_shards, compare_merged

    home = prepare_home()
    if ((folder := Path(suite)) / STAMP).is_file():
        print(build_anew(folder, out or folder, sections_of(read_stamp(folder)["config"])))
        return
    found = find_suite(home, suite)
    if came_in_shards(home, found):
        compare_merged(home, str(found))  # a run that was made here since, by `--only`, is in no comparison yet
    sections = sections_of(StoredSuite(home, str(found)).config)
    print(build_pack(home, str(found), out or Path("packs") / found.name, sections))


def verify(folder: Annotated[Path, Parameter(help="The folder of a pack.")], /) -> int:
    """Recompute every number of a pack from the rows that it carries; needs no store. Where the store has the suite,
    the rows are compared with the store's. Exits with 1 and names each difference if there is any.
    """
    from evolora_core.report import renamed
    from evolora_core.report import verify as verify_pack
    from evolora_core.report.pack_folder import read_stamp
    from evolora_core.searches.registry import sections_of

    home = prepare_home()
    differences = renamed(folder) + verify_pack(home, folder, sections_of(read_stamp(folder)["config"]))
    for difference in differences:
        print(printable(difference))
    if not differences:
        print(f"{folder}: every number follows from the kept rows")
    return int(bool(differences))


def export(
    folder: Annotated[Path, Parameter(help="The folder of a pack.")],
    /,
    *,
    to: Annotated[
        list[Literal["latex", "md", "svg"]] | None, Parameter(help="A form; may be repeated. All three by default.")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Folder to write; by default the pack itself.")] = None,
) -> None:
    """Write the tables of a pack as LaTeX and Markdown, and its plots as SVG. Needs the pack alone."""
    from evolora_core.report import export as export_pack
    from evolora_core.report.pack_folder import read_stamp
    from evolora_core.searches.registry import sections_of

    prepare_home()  # matplotlib keeps its cache there
    sections = sections_of(read_stamp(folder)["config"])
    for file in export_pack(folder, to or ("latex", "md", "svg"), out or folder, sections):
        print(file)
