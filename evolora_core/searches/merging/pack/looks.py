"""In which order the arms of the merge search stand, and how each looks in every plot.

Strategies are filled marks in colours, controls are open marks in black and grey. A condition of a suite's own has the
colour of what it is like, with another mark and line.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pandas as pd
from matplotlib.lines import Line2D

from evolora_core.searches.merging.names import CONTROLS, PARENT, STRATEGIES

Line: TypeAlias = Literal["-", "--", ":", "-."] | tuple[int, tuple[float, ...]]
GREY, BLACK = "#7f7f7f", "#222222"
ORDER = {kind: place for place, kind in enumerate([*CONTROLS, *STRATEGIES])}
LOOKS: dict[str, tuple[str, str]] = {  # colour and marker of each kind
    "base": (GREY, "o"),
    "parent": (GREY, "."),
    "best-parent": (GREY, "s"),
    "uniform": (BLACK, "s"),
    "greedy-soup": (BLACK, "^"),
    "lambda-grid": (BLACK, "v"),
    "model-stock": (BLACK, "D"),
    "ensemble": (BLACK, "p"),
    "adam": (BLACK, "*"),
    "fine-tuned-mean": (BLACK, "P"),
    "multitask": (BLACK, "X"),
    "random": ("#E69F00", "o"),
    "hill-climbing": ("#882255", "s"),
    "evomerge-as-published": ("#56B4E9", "s"),
    "evomerge": ("#0072B2", "o"),
    "cma": ("#D55E00", "^"),
    "cycleqd": ("#009E73", "D"),
    "niches": ("#CC79A7", "v"),
}
MARKS = ("", "P", "X", "h")  # markers of what is like a kind
STYLES: tuple[Line, ...] = ("-", "--", ":", "-.")  # the kind itself, then what is like it, in the order of the suite


@dataclass(frozen=True)
class Look:
    """How an arm looks."""

    colour: str
    marker: str
    filled: bool
    line: Line

    @property
    def face(self) -> str:
        """The colour within its marks."""
        return self.colour if self.filled else "white"


def looks_of(rows: pd.DataFrame) -> dict[str, Look]:
    """The look of each arm in `rows` (arm, kind)."""
    found: dict[str, Look] = {}
    alike: dict[str, int] = {}
    for arm, kind in rows[["arm", "kind"]].drop_duplicates().itertuples(index=False):
        colour, marker = LOOKS.get(kind, (BLACK, "h"))
        if arm != kind and kind != "parent":
            alike[kind] = alike.get(kind, 0) + 1
        own = alike.get(kind, 0) % len(STYLES) if arm != kind else 0
        found[arm] = Look(colour, MARKS[own] or marker, kind in STRATEGIES, STYLES[own])
    return found


def handle(arm: str, look: Look, *, line: bool) -> Line2D:
    """An entry of a legend: the line of an arm, or its mark."""
    if line:
        return Line2D([], [], color=look.colour, linestyle=look.line, label=arm)
    return Line2D(
        [], [], color=look.colour, marker=look.marker, markerfacecolor=look.face, linestyle="", markersize=6, label=arm
    )


def kind_of(arm: str, config: Mapping[str, Any]) -> str:
    """The kind of a condition of a resolved suite."""
    if own := config.get("arms", {}).get(arm):
        return str(own["like"])
    return "parent" if arm.startswith(PARENT) else arm


def in_order(rows: pd.DataFrame, config: Mapping[str, Any]) -> pd.DataFrame:
    """The rows with a column `kind` behind `arm`: controls first, then strategies, each kind before what is like it.
    Rows of one arm keep their order.
    """
    kinds = [kind_of(arm, config) for arm in rows["arm"]]
    declared = {condition: place for place, condition in enumerate(config["conditions"])}
    places = [
        (ORDER.get(kind, len(ORDER)), arm != kind, declared.get(arm, len(declared)))
        for arm, kind in zip(rows["arm"], kinds, strict=True)
    ]
    sorted_rows = rows.drop(columns="kind", errors="ignore")
    sorted_rows.insert(list(sorted_rows.columns).index("arm") + 1, "kind", kinds)
    return sorted_rows.iloc[_stable(places)].reset_index(drop=True)


def _stable(places: Iterable[tuple[int, bool, int]]) -> list[int]:
    return [number for number, _ in sorted(enumerate(places), key=lambda one: one[1])]
