"""`evolora store rebuild`."""

import sys

from cyclopts import App


def register(app: App) -> None:
    """Add the commands."""
    store = App(name="store", help="The DuckDB file that holds every number.", help_epilogue="")
    app.command(store)
    store.command(rebuild, help_epilogue="Example: `evolora store rebuild`")


def rebuild() -> None:
    """Make the DuckDB file anew from the run folders."""
    from evolora_core.home import prepare_home
    from evolora_core.store import rebuild as make_anew

    made = make_anew(prepare_home())
    for part, reason in made.left_out:
        print(f"left out: {part.run_id} {part.stage}: {reason}", file=sys.stderr)
    print(f"recorded {len(made.recorded)} stages, {made.rows} rows")
