"""How the arms of the adapter search look in every plot and map."""

from collections.abc import Iterable, Sequence

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from evolora_core.report import plots
from evolora_core.report.plots import Look
from evolora_core.searches.adapters.arms.kinds import KINDS

LOOKS: dict[str, Look] = {name: kind.look for name, kind in KINDS.items() if kind.look}


def looks_of(conditions: Iterable[str]) -> dict[str, Look]:
    """Colour and marker of each condition; those that a suite defines itself get theirs in its order."""
    return plots.looks_of(conditions, LOOKS)


def legend_below(
    figure: Figure, conditions: Sequence[str], *, line: bool = False, marker: bool = False, more: Sequence[Artist] = ()
) -> None:
    """A legend of these conditions below the panels."""
    looks = looks_of(conditions)
    plots.legend_below(figure, {name: looks[name] for name in conditions}, line=line, marker=marker, more=more)
