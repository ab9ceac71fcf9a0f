"""How arms look in every plot, and how their lines are named.

The baseline is black. A known mechanism has a muted colour and a thin line, and looks the same in every plot; what must
lose is red. Searches and programs of one's own have the bright colours and the thick lines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from evolora_core.searches.attention.known.registry import BASELINE, KNOWN

GREY, BLACK, RED = "#707070", "#222222", "#D55E00"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")  # Okabe and Ito's, and a wine red
MARKS = ("o", "s", "^", "D", "v", "P")
MUTED = ("#332288", "#117733", "#661100", "#2E8C8C", "#7A7A1F", "#AA4499", "#4477AA", "#707070")  # of Tol's, darkened
MUTED_MARKS = ("o", "^", "s", "v")
TURN = 3  # colours to go on by the second time round, so that two mechanisms of a colour are seldom neighbours
GAP = 0.044  # of a panel's height: the least distance of two names
BEYOND = 0.5  # what must lose may make a panel larger by this share; what lies further is named at the edge


@dataclass(frozen=True)
class Look:
    """Colour, mark and weight of an arm. `zorder`: what is drawn last stands in front."""

    colour: str
    marker: str
    size: float
    width: float
    zorder: int


def looks_of(arms: Iterable[str]) -> dict[str, Look]:
    """The look of each arm. Equal sets of arms give equal looks."""
    found: dict[str, Look] = {}
    peers = [name for name in KNOWN if name != BASELINE and not KNOWN[name].negative]
    own = 0
    for arm in sorted(set(arms)):
        if arm == BASELINE:
            found[arm] = Look(BLACK, "o", 4, 1.6, 4)
        elif must_lose(arm):
            found[arm] = Look(RED, "x", 4, 1.2, 3)
        elif arm in KNOWN:
            place = peers.index(arm)
            turn = place // len(MUTED)  # colours are used again, with another mark
            colour = MUTED[(place + TURN * turn) % len(MUTED)]
            found[arm] = Look(colour, MUTED_MARKS[(place + turn) % len(MUTED_MARKS)], 3, 0.9, 2)
        else:
            found[arm] = Look(COLOURS[own % len(COLOURS)], MARKS[own % len(MARKS)], 5, 1.8, 5)
            own += 1
    return found


def must_lose(arm: str) -> bool:
    """Whether an arm is a known mechanism that an evaluator must rank last."""
    return arm in KNOWN and KNOWN[arm].negative


def limits(points: pd.DataFrame, value: str, *, zero: bool) -> tuple[float, float]:
    """The range of the values of an axis: all that need not lose, and what must lose as far as it lies near."""
    negative = points["arm"].map(must_lose).astype(bool)
    core = points.loc[~negative, value] if (~negative).any() else points[value]
    low, high = min(core.min(), 0.0 if zero else np.inf), max(core.max(), 0.0 if zero else -np.inf)
    span = max(high - low, 1e-3)
    worst, best = points[value].min(), points[value].max()
    bottom = worst if low - BEYOND * span <= worst < low else low
    top = best if high < best <= high + BEYOND * span else high
    room = 0.06 * (top - bottom)
    return float(bottom - room), float(top + room)


def name_ends(panel: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Name lines at their right ends (x, y, name, colour), a thin line to each name; names that would overlap are moved
    apart. An end beyond the panel is named at its edge, with an arrow.
    """
    low, high = panel.get_ylim()
    edge = panel.get_xlim()[1]
    order = sorted(ends, key=lambda end: (end[1], end[2]))
    places = _apart([float(np.clip(y, low, high)) for _, y, _, _ in order], GAP * (high - low), low, high)
    for place, (x, y, name, colour) in zip(places, order, strict=True):
        arrow = " ↑" if y > high else " ↓" if y < low else ""
        panel.annotate(
            f"{name}{arrow}",
            (edge, place),
            xytext=(16, 0),
            textcoords="offset points",
            color=colour,
            fontsize=7.5,
            va="center",
            annotation_clip=False,
        )
        if not arrow:
            panel.annotate(
                "",
                (x, y),
                xytext=(edge, place),
                arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 0},
                annotation_clip=False,
            )
            panel.annotate(
                "",
                (edge, place),
                xytext=(14, 0),
                textcoords="offset points",
                arrowprops={
                    "arrowstyle": "-",
                    "color": colour,
                    "linewidth": 0.5,
                    "alpha": 0.6,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
                annotation_clip=False,
            )


def _apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, in their order, at least `gap` apart and between low and high where they fit."""
    places = np.array(wanted, dtype=float)
    below = gap * np.arange(len(places))  # what the names below take
    room = high - low - gap * (len(places) - 1)
    for _ in range(500):  # push neighbours apart until none overlap
        overlap = np.maximum(gap - np.diff(places), 0)
        if overlap.max(initial=0) < 1e-6 * gap:
            break
        places[1:] += overlap / 2
        places[:-1] -= overlap / 2
        if room >= 0:
            places = np.clip(places, low + below, low + below + room)
    return [float(place) for place in places]
