"""The plots of a pack: their data, read from the store, and the files."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from evolora_core.report import plots
from evolora_core.report.contents import Contents
from evolora_core.report.sections import Config, PackPlot


def read(contents: Contents) -> dict[str, pd.DataFrame]:
    """The data of each plot by its file name; a plot without data is left out."""
    data = {name: plot.read(contents) for name, plot in contents.sections.plots.items()}
    return {name: rows for name, rows in data.items() if not rows.empty}


def draw(
    own: Mapping[str, PackPlot],
    data: Mapping[str, pd.DataFrame],
    folder: Path,
    suite: str,
    config: Config,
    form: str = "png",
) -> None:
    """Every plot of which there is data, as PNG or SVG; `config` is the resolved suite."""
    for name, rows in data.items():
        plots.save(figure(own[name], rows, suite, config), folder, name, form)


def figure(plot: PackPlot, rows: pd.DataFrame, suite: str, config: Config) -> Figure:
    """One plot under the names of the suite and its host, if it has one."""
    shown, note = plot.narrow(rows, config)
    drawn = plot.draw(shown)
    host = f", host {config['host']}" if config.get("host") else ""
    plots.head(drawn, f"{suite}{host}{note}")
    return drawn
