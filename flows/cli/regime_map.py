"""`evolora map`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter


def register(app: App) -> None:
    """Add the command."""
    app.command(make_map, name="map", help_epilogue="Example: `evolora map packs/regimes packs/conflict --out my-map`")


def make_map(
    packs: Annotated[list[Path], Parameter(help="Folders of packs.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder to write: map.csv, map.md and plots (PNG, SVG).")],
) -> None:
    """Draw the map of where to evolve, where to fine-tune, and where a population pays, from what packs found."""
    from evolora_core.home import prepare_home
    from evolora_core.report.regime_map import build_map

    prepare_home()  # matplotlib keeps its cache there
    print(build_map(packs, out))
