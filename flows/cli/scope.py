"""`evolora scope`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError
from flows.cli._app import AnyId


def register(app: App) -> None:
    """Add the command."""
    app.command(
        scope,
        help_epilogue="Example: `evolora scope quickstart` or `evolora scope quickstart.ecology.s0 --out look.html`",
    )


def scope(
    what: Annotated[
        str,
        Parameter(help="A suite that was run, by its name, id or file; or a run of it, such as quickstart.ecology.s0."),
    ],
    /,
    *,
    seed: Annotated[
        int | None, Parameter(help="Run seed whose runs and answers are shown; by default all complete ones."), AnyId
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="File to write, FILE.html; by default EVOLORA_HOME/scope/SUITE.html or RUN.html.")
    ] = None,
) -> None:
    """Write one HTML page to look at a finished suite: verdicts, accuracies, the ecology over time, and answers.
    The page of a run has the ecology of that run alone, and all answers of its seed.

    A page has all that it needs in it, asks no network and has less than 10 MB. Needs the extra `scope`.
    """
    from importlib import import_module

    from evolora_core.engine.run_index import read_suite, run_named
    from evolora_core.searches.base import Page, page_file
    from evolora_core.searches.registry import find_suite, search_of

    if out is not None and (out.is_dir() or out.suffix not in (".html", ".htm")):
        raise ConfigError(f"--out {out}: is no place for a page; name a file that ends with .html")
    home = prepare_home()
    word, condition, own = run_named(what) or (what, None, None)
    if own is not None and seed is not None:
        raise ConfigError(f"--seed {seed}: {what} has a seed; leave out one of them")
    found = find_suite(home, word)
    search = search_of(read_suite(home, found) or {})
    if not search.page:
        raise ConfigError(
            f"{found}: the search '{search.name}' draws no page; `evolora pack {found}` has tables and plots"
        )
    name = f"{found}.{condition}.s{own}" if condition else str(found)
    file = out or page_file(home, name)
    written: Page = import_module(search.page).write_page(
        home, str(found), file, seed if own is None else own, condition
    )
    print(f"{written.file}: {written.bytes / 1e6:.1f} MB, {written.items} items")
    for sentence in written.left_out:
        print(sentence)
