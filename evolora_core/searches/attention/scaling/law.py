"""What the programs of a run have in common: the floor of the law L = E + A N^-α, and how far they bend away from it.

Fitted once on programs that are there from the start (baseline and controls), and then held for all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolora_core.errors import StageError
from evolora_core.searches.attention.scaling.fits import CLOSEST, Curve, power, weighted_line
from evolora_core.searches.attention.scaling.losses import Cells, Losses, cells_of

NEAREST, FARTHEST = 0.05, 20.0  # how far below the lowest loss the floor may lie, in ranges of the losses
GRID = 48  # floors tried at once; three times, each around the best of the one before


@dataclass(frozen=True)
class Law:
    """The shared floor E (nats) with its standard error, and the misfit of the law.

    bend      standard deviation over the programs of how their difference to the baseline bends beyond what the law
              says (nats for each squared e-fold of N). Too small to be seen in one program, it would make intervals of
              an extrapolation too narrow
    programs  that it was fitted on
    """

    floor: float
    floor_se: float
    bend: float
    programs: tuple[str, ...]


def fit_law(losses: Losses, baseline: str, controls: Sequence[str]) -> Law:
    """The floor with the least sum of squares (nats) over baseline and controls, each with A and α of its own.

    It is profiled over a grid of floors, all at once. Its standard error takes the cells of one size and seed together
    over the programs, for they share batches and texts.
    """
    programs = tuple(dict.fromkeys([baseline, *controls]))
    own = [cells_of(losses, program) for program in programs]
    own = [cells for cells in own if len(set(cells.size)) > 2]  # two sizes fit any floor
    if not own:
        raise StageError(f"the shared floor needs three sizes of one program or more among {', '.join(programs)}")
    low = min(float(cells.y.min()) for cells in own)
    span = max(max(float(np.ptp(cells.y)) for cells in own), 1e-6)
    nearest = max(NEAREST * span, 1.1 * CLOSEST * max(abs(low), 1.0))  # `power` takes no nearer one
    gaps = np.geomspace(nearest, max(FARTHEST * span, 2 * nearest), GRID)
    for _ in range(3):
        best = int(np.argmin(np.sum([_squares(cells, low - gaps) for cells in own], axis=0)))
        floor = low - float(gaps[best])
        gaps = np.geomspace(gaps[max(best - 1, 0)], gaps[min(best + 1, GRID - 1)], GRID)
    bend = _bend(losses, baseline, programs[1:], floor)
    return Law(floor, _floor_se(own, floor, len(losses.seeds)), bend, programs)


def bow(curve: Curve) -> np.ndarray:
    """Squared e-folds of N from the middle of a curve's sizes `[cells]`: the shape of the misfit."""
    found: np.ndarray = (curve.x - curve.centre) ** 2
    return found


def _alone(column: np.ndarray, tangent: np.ndarray) -> np.ndarray:
    """The part of a column `[cells]` that a fit with these derivatives `[cells, 2]` leaves unexplained."""
    found: np.ndarray = column - tangent @ np.linalg.lstsq(tangent, column, rcond=None)[0]
    return found


def _squares(cells: Cells, floors: np.ndarray) -> np.ndarray:
    """Sum of squared residuals (nats) `[floors]` of the law."""
    gap = cells.y - floors[:, None]
    a, b, centre = weighted_line(cells.x, np.log(gap), gap**2)
    fitted = np.exp(a[:, None] + b[:, None] * (cells.x - centre[:, None]))
    found: np.ndarray = ((gap - fitted) ** 2).sum(axis=1)
    return found


def _floor_se(own: Sequence[Cells], floor: float, seeds: int) -> float:
    """Standard error of the floor, from how much each measured loss moves it once every A and α has followed."""
    moved: dict[int, float] = {}
    squares = 0.0
    for cells in own:
        curve = power(cells, floor)
        assert curve is not None  # no floor so near is tried
        alone = _alone(np.ones(len(cells.x)), curve.tangent)
        squares += float((alone**2).sum())
        for slot, part in zip(cells.size * seeds + cells.seed, alone * curve.residuals, strict=True):
            moved[int(slot)] = moved.get(int(slot), 0.0) + float(part)
    free = len(moved) - 3
    if free <= 0 or squares <= 0:
        return float("nan")
    together = np.array(list(moved.values()))
    return float(np.sqrt((together**2).sum() * len(moved) / free) / squares)


def _bend(losses: Losses, baseline: str, controls: Sequence[str], floor: float) -> float:
    """Spread of the bends of the paired residuals, beyond what noise alone makes; 0 where nothing is left."""
    beyond = []
    for control in controls:
        where = losses.common([control, baseline])
        mine, other = cells_of(losses, control, where), cells_of(losses, baseline, where)
        if len(mine.x) < 4 or len(set(mine.size)) < 3:
            continue
        ours, theirs = power(mine, floor), power(other, floor)
        if ours is None or theirs is None:
            continue
        residuals = theirs.residuals - ours.residuals
        alone = _alone(bow(ours), ours.tangent)
        length = float((alone**2).sum())
        bend = float((alone * residuals).sum()) / length
        noise = float((residuals**2).sum() - bend**2 * length) / (len(residuals) - 3) / length
        beyond.append(bend**2 - noise)
    return float(np.sqrt(max(float(np.mean(beyond)), 0.0))) if beyond else 0.0
