"""`evolora map`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home


def register(app: App) -> None:
    """Add the command."""
    app.command(make_map, name="map", help_epilogue="Example: `evolora map packs/regimes packs/conflict --out my-map`")


def make_map(
    packs: Annotated[list[Path], Parameter(help="Folders of packs.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder to write: map.csv, map.md and plots.")],
    svg: Annotated[bool, Parameter(help="Write the plots as SVG too.")] = False,
) -> None:
    """Draw the map from packs: where to search from rewards, where to fine-tune, where a population pays."""
    from evolora_core.searches.adapters.map.regime_map import build_map

    prepare_home()  # matplotlib keeps its cache there
    print(build_map(packs, out, ("png", "svg") if svg else ("png",)))
