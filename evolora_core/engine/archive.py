"""Quality-diversity archive (MAP-Elites, Mouret and Clune 2015): cell = (family, depth, cost bin), elite = a copy of
the weights.

Vocabulary as in pyribs: an elite has an objective; coverage is the share of occupied cells, QD score the sum of the
objectives.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Elite:
    """The best organelle of a cell: its id, and its objective there."""

    organelle: int
    objective: float


@dataclass
class Archive:
    """The grid. The elite of cell number i has its weights in slot i of the archive's own stack of adapters."""

    cells: list[tuple[str, str]]  # (family, depth)
    cost_edges: list[float]
    elites: dict[int, Elite] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.cells) * (len(self.cost_edges) + 1)

    def index(self, cell: int, relative_cost: float) -> int:
        """Number of the archive cell of a (family, depth) cell at a cost relative to the bare host's."""
        return cell * (len(self.cost_edges) + 1) + int(np.searchsorted(self.cost_edges, relative_cost, side="right"))

    def cell(self, index: int) -> int:
        """Number of the (family, depth) cell of an archive cell."""
        return index // (len(self.cost_edges) + 1)

    def describe(self, index: int) -> tuple[str, str, int]:
        """(family, depth, cost bin) of an archive cell."""
        cell, cost_bin = divmod(index, len(self.cost_edges) + 1)
        return (*self.cells[cell], cost_bin)

    def add(self, index: int, elite: Elite) -> bool:
        """Enter an elite if its cell is empty, its own, or held by a lesser one; True if its weights must be stored."""
        holder = self.elites.get(index)
        if holder and holder.organelle != elite.organelle and holder.objective >= elite.objective:
            return False
        self.elites[index] = elite
        return True

    @property
    def coverage(self) -> float:
        """Share of the cells that have an elite."""
        return len(self.elites) / self.size

    @property
    def qd_score(self) -> float:
        """Sum of the elites' objectives, exact, so that it does not depend on their order."""
        return math.fsum(elite.objective for elite in self.elites.values())

    def state(self) -> list[dict[str, Any]]:
        """Elites as JSON rows."""
        return [{"index": i, **vars(elite)} for i, elite in sorted(self.elites.items())]

    def restore(self, rows: list[dict[str, Any]]) -> None:
        """Set the elites to what `state()` gave."""
        self.elites = {r["index"]: Elite(r["organelle"], r["objective"]) for r in rows}
