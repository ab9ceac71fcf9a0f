"""What the measured sizes say of a larger one: its loss, and by how much a program will beat the baseline.

Two forms are told apart: `power`, with the floor of the run's law, and `line`. In simulated worlds (`simulated_worlds`
of the tests has the figures) the power form has the smaller error of the gain, by up to a third. Where a program comes
too near the floor or below it, and where there is no law, the line is taken.

The interval comes from the paired residuals of the two fits, pooled over sizes and seeds, with what the texts, the
floor and the bends of the run's programs add; it holds about 95 % with one to eight seeds. It is that of the curve
itself, or, with `fresh`, of what is measured later: the mean of so many trainings, on as many other texts, which
scatter around the curve as the measured ones do. That of a loss is not known where the error of the floor is not, as
with one seed and three sizes. A bootstrap of seeds and texts would not need the sizes of a seed to be independent, but
it held 50 % with two seeds and 75 % with three, as any bootstrap of so few does.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evolora_core.errors import StageError
from evolora_core.searches.attention.scaling.fits import Curve, line, power
from evolora_core.searches.attention.scaling.intervals import Estimate, estimate, of_texts
from evolora_core.searches.attention.scaling.law import Law, bow
from evolora_core.searches.attention.scaling.losses import Cells, Losses, cells_of

Form = Literal["power", "line"]


@dataclass(frozen=True)
class Prediction:
    """A loss or gain (nats), with its interval."""

    form: Form
    estimate: Estimate

    @property
    def value(self) -> float:
        return self.estimate.value


def predict_loss(losses: Losses, program: str, at: float, law: Law | None = None, *, fresh: int = 0) -> Prediction:
    """The loss of a program at `at` parameters; by the line without a law.

    fresh  trainings, with seeds and texts of their own, for whose mean loss the interval is; 0: for the curve
    """
    cells = cells_of(losses, program)
    curve = _curve(cells, law)
    pull = curve.pull(at)
    parts = _scatter(curve.residuals, pull, fresh)
    if cells.texts is not None:
        parts += [of_texts(cells.texts @ pull)] * (2 if fresh else 1)
    found = estimate(curve.at(at), parts + _shared(curve, at, law, 1 - float(pull.sum())))
    return Prediction(_form(curve), found)


def predict_gain(
    losses: Losses, program: str, baseline: str, at: float, law: Law | None = None, *, fresh: int = 0
) -> Prediction:
    """Loss of the baseline less loss of the program at `at` parameters (positive: the program is better), both fitted
    on the sizes and seeds that they have in common; by the line without a law.

    Each is fitted over its own numbers of parameters, so that what more parameters are worth is no gain.

    fresh  pairs of trainings, with seeds and texts of their own, for whose mean gain the interval is; 0: for the curves
    """
    if law is not None and np.isnan(law.floor_se):
        law = replace(law, floor_se=0.0)  # both have the same floor, which hardly moves their difference
    where = losses.common([program, baseline])
    mine, other = cells_of(losses, program, where), cells_of(losses, baseline, where)
    if not len(mine.x):
        raise StageError(f"{program} and {baseline} have no size and seed in common")
    ours, theirs = _curve(mine, law), _curve(other, law)
    if ours.floor is None or theirs.floor is None:
        ours, theirs = line(mine), line(other)
    pull, pull_other = ours.pull(at), theirs.pull(at)
    parts = _scatter(theirs.residuals - ours.residuals, (pull + pull_other) / 2, fresh)
    if mine.texts is not None and other.texts is not None:
        parts += [of_texts(other.texts @ pull_other - mine.texts @ pull)] * (2 if fresh else 1)
    found = estimate(theirs.at(at) - ours.at(at), parts + _shared(ours, at, law, float(pull.sum() - pull_other.sum())))
    return Prediction(_form(ours), found)


def _form(curve: Curve) -> Form:
    return "line" if curve.floor is None else "power"


def _curve(cells: Cells, law: Law | None) -> Curve:
    """The power form, or the line where there is no law or a loss comes too near its floor."""
    return (None if law is None else power(cells, law.floor)) or line(cells)


def _scatter(residuals: np.ndarray, pull: np.ndarray, fresh: int) -> list[tuple[float, float]]:
    """(variance, degrees of freedom) from the scatter of the cells around the fit, one for all cells, and for the mean
    of `fresh` new ones.
    """
    free = float(len(residuals) - 2)
    scatter = float((residuals**2).sum() / free) if free > 0 else float("nan")
    return [(scatter * (float((pull**2).sum()) + (1 / fresh if fresh else 0.0)), free)]


def _shared(curve: Curve, at: float, law: Law | None, floor_pull: float) -> list[tuple[float, float]]:
    """(variance, degrees of freedom) of what is uncertain in the law: the floor, which moves the value by `floor_pull`
    for each nat, and the bends that single programs may have.
    """
    if law is None or curve.floor is None:
        return []
    free = float(max(len(law.programs) - 1, 1))
    beyond = (np.log(at) - curve.centre) ** 2 - float((curve.pull(at) * bow(curve)).sum())
    return [((floor_pull * law.floor_se) ** 2, free), ((law.bend * beyond) ** 2, free)]
