"""The score of a program: the gain over the baseline that is predicted for three times the largest size."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from evolora_core.searches.attention.scaling.fits import Line, paired_curve, straight
from evolora_core.searches.attention.scaling.intervals import Estimate
from evolora_core.searches.attention.scaling.law import Law
from evolora_core.searches.attention.scaling.losses import Losses, star
from evolora_core.searches.attention.scaling.predict import Draws, Prediction, predict_gain, predict_loss


@dataclass(frozen=True)
class Bounds:
    """What a program may cost, and how much worse it may be at the smallest size.

    smallest    nats by which its mean loss at the smallest size may exceed the baseline's: a handicap there alone
                raises the score by up to half of itself. With noise of .01 nats a program as good as the baseline
                exceeds .02 in 8 % of cases with one seed, in 2 % with two
    flops       times the counted FLOPs of the baseline's training step, at any size
    parameters  times the baseline's non-embedding parameters, at any size
    """

    smallest: float = 0.02
    flops: float = 3.0
    parameters: float = 1.1


BOUNDS = Bounds()


@dataclass(frozen=True)
class Scored:
    """All that the sizes say of a program. Without finite losses everything but `guards` is None.

    gain      predicted gain at N* by the better form; its value is the score
    line      the same by the straight line, for comparison
    loss      predicted loss at N*
    curve     paired difference to the baseline, size by size (positive: worse)
    straight  the fit of the loss on ln N; the first system's fitness was its -slope
    guards    which of `finite`, `smallest`, `flops` and `parameters` it fails; only one without any may be selected
    """

    program: str
    gain: Prediction | None
    line: Prediction | None
    loss: Prediction | None
    curve: Mapping[str, Estimate] | None
    straight: Line | None
    guards: tuple[str, ...]

    @property
    def score(self) -> float | None:
        """Predicted gain at N* in nats, higher is better."""
        return None if self.gain is None else self.gain.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score; None where it is not known (too few sizes and seeds)."""
        own = None if self.gain is None else self.gain.estimate
        return (own.lo, own.hi) if own is not None and np.isfinite([own.lo, own.hi]).all() else None

    @property
    def passed(self) -> bool:
        return not self.guards


def score(
    losses: Losses,
    program: str,
    baseline: str,
    law: Law | None,
    flops: Mapping[str, float],
    *,
    bounds: Bounds = BOUNDS,
    at: float | None = None,
    draws: Draws | None = None,
) -> Scored:
    """Score and guards of a program, from the sizes and seeds that it has in common with the baseline.

    flops  of its training step as a multiple of the baseline's, by size
    at     N*, if another than three times the baseline's largest size
    draws  resamples, if the bootstrap's interval is wanted too
    """
    own = losses.values[losses.place(program)]
    if np.isinf(own).any() or np.isnan(own).all():
        return Scored(program, None, None, None, None, None, ("finite",))
    at = star(losses, baseline) if at is None else at
    curve = paired_curve(losses, program, baseline)
    return Scored(
        program,
        predict_gain(losses, program, baseline, at, law, draws),
        predict_gain(losses, program, baseline, at, None, draws),
        predict_loss(losses, program, at, law, draws),
        curve,
        straight(losses, program),
        tuple(_failed(losses, program, baseline, curve, flops, bounds)),
    )


def _failed(
    losses: Losses,
    program: str,
    baseline: str,
    curve: Mapping[str, Estimate],
    flops: Mapping[str, float],
    bounds: Bounds,
) -> Iterator[str]:
    """The guards that a program fails."""
    mine, other = losses.n[losses.place(program)], losses.n[losses.place(baseline)]
    smallest = min(curve, key=lambda size: float(other[losses.sizes.index(size)]))
    if curve[smallest].value > bounds.smallest:
        yield "smallest"
    if max(flops.values()) > bounds.flops:
        yield "flops"
    if np.nanmax(mine / other) > bounds.parameters:
        yield "parameters"
