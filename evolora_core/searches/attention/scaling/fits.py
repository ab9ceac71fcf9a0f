"""Three forms of how loss falls with the number of parameters N.

1. `straight`: L = c + s ln N. The slope s was the first system's fitness; it is kept as a column, for it is easily
   gamed: a program that is made worse at small sizes falls more steeply.
2. `power`: L = E + A N^-α. Three parameters of each program are not identified by four sizes, so the floor E is one
   for all programs of a run, and is given (`law.py`).
3. `paired_curve`: Δ(N), the loss of a program less that of the baseline, size by size.

Forms 1 and 2 are least squares of a line, of L or of ln(L - E) on ln N, and share their code.
"""

from dataclasses import dataclass

import numpy as np

from evolora_core.errors import StageError
from evolora_core.searches.attention.scaling.intervals import Estimate, of_crossed
from evolora_core.searches.attention.scaling.losses import Cells, Losses, cells_of

CLOSEST = 1e-3  # share of the floor, or of a nat, by which every loss has to lie above it


@dataclass(frozen=True)
class Line:
    """Form 1: slope (nats for each e-fold of N) with its standard error, loss where ln N = 0, and R² of the cells."""

    slope: float
    se: float
    intercept: float
    r2: float


@dataclass(frozen=True)
class Curve:
    """A fitted form 1 (`floor` is None) or form 2 of one program.

    a, b       the line a + b (x - centre) through L, or through ln(L - floor); α = -b
    weights    of the cells in that fit `[cells]`
    residuals  losses less fitted ones `[cells]`, nats
    """

    floor: float | None
    a: float
    b: float
    centre: float
    x: np.ndarray
    weights: np.ndarray
    residuals: np.ndarray

    def at(self, n: float) -> float:
        """The loss at `n` parameters."""
        line = self.a + self.b * (np.log(n) - self.centre)
        return float(line if self.floor is None else self.floor + np.exp(line))

    @property
    def law(self) -> tuple[float, float]:
        """A and α of form 2, L = floor + A N^-α."""
        return float(np.exp(self.a - self.b * self.centre)), -self.b

    @property
    def tangent(self) -> np.ndarray:
        """Derivatives of the fitted losses by the two fitted numbers `[cells, 2]`."""
        off = self.x - self.centre
        scale = np.ones(len(off)) if self.floor is None else np.exp(self.a + self.b * off)
        return np.stack([scale, scale * off], axis=1)

    def pull(self, n: float) -> np.ndarray:
        """Derivatives of the loss at `n` with respect to each measured loss `[cells]`, the floor being fixed."""
        off = self.x - self.centre
        spread = np.log(n) - self.centre
        parts = self.weights * (1 / self.weights.sum() + spread * off / (self.weights * off**2).sum())
        if self.floor is not None:
            parts = parts * (self.at(n) - self.floor) / self.tangent[:, 0]
        return np.asarray(parts)


def weighted_line(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(a, b, centre), each `[...]`, of the least squares lines a + b (x - centre) through y `[..., cells]`.

    b is NaN where the weights leave a single size.
    """
    total = weights.sum(axis=-1)
    centre = (weights * x).sum(axis=-1) / total
    off = x - centre[..., None]
    a = (weights * y).sum(axis=-1) / total
    spread = (weights * off**2).sum(axis=-1)
    b = (weights * off * (y - a[..., None])).sum(axis=-1) / np.where(spread > 1e-9 * total, spread, np.nan)
    return a, b, centre


def line(cells: Cells) -> Curve:
    """Form 1 as a curve; needs two sizes."""
    _need_sizes(cells)
    weights = np.ones(len(cells.x))
    a, b, centre = (float(part) for part in weighted_line(cells.x, cells.y, weights))
    return Curve(None, a, b, centre, cells.x, weights, cells.y - a - b * (cells.x - centre))


def power(cells: Cells, floor: float) -> Curve | None:
    """Form 2 with a given floor; None where a loss lies so near the floor or below that its logarithm says nothing."""
    _need_sizes(cells)
    gap = cells.y - floor
    if gap.min() <= CLOSEST * max(abs(floor), 1.0):
        return None
    logs, weights = np.log(gap), gap**2
    for _ in range(2):  # weights from the fitted gaps: those of the measured ones would favour cells with high losses
        a, b, centre = weighted_line(cells.x, logs, weights)
        weights = np.exp(2 * (a + b * (cells.x - centre)))
    a, b, centre = weighted_line(cells.x, logs, weights)
    fitted = np.exp(a + b * (cells.x - centre))
    return Curve(floor, float(a), float(b), float(centre), cells.x, weights, gap - fitted)


def straight(losses: Losses, program: str) -> Line:
    """Form 1 over all measured cells of a program; needs two sizes. R² is NaN for two cells, through which every line
    goes.
    """
    cells = cells_of(losses, program)
    curve = line(cells)
    free = len(cells.x) - 2
    left = float((curve.residuals**2).sum())
    spread = float(((cells.x - curve.centre) ** 2).sum())
    total = float(((cells.y - cells.y.mean()) ** 2).sum())
    se = float(np.sqrt(left / free / spread)) if free > 0 else float("nan")
    r2 = 1 - left / total if free > 0 and total > 0 else float("nan")
    return Line(curve.b, se, curve.a - curve.b * curve.centre, r2)


def paired_curve(losses: Losses, program: str, baseline: str) -> dict[str, Estimate]:
    """Form 3: Δ at each size that both were measured at, over common seeds (and texts, where they are kept).

    With one seed the interval is not known.
    """
    where = losses.common([program, baseline])
    mine, other = losses.place(program), losses.place(baseline)
    kept = losses.values if losses.texts is None else losses.texts
    return {
        size: of_crossed(kept[mine, place, where[place]] - kept[other, place, where[place]])
        for place, size in enumerate(losses.sizes)
        if where[place].any()
    }


def _need_sizes(cells: Cells) -> None:
    if len(set(cells.size)) < 2:
        raise StageError("a fit over sizes needs losses at two sizes or more")
