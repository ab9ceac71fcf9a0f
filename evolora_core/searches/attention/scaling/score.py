"""The score of a program: its gain over the baseline at the largest size, paired by training seed.

A law over the sizes predicts gains at larger ones (`predict.py`). It does not rank programs better than this plain gain
does, so nothing is chosen by it (docs/decisions.md has the figures).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from evolora_core.errors import StageError
from evolora_core.searches.attention.limits import MOST_FLOPS, MOST_PARAMETERS
from evolora_core.searches.attention.scaling.fits import paired_curve
from evolora_core.searches.attention.scaling.intervals import Estimate
from evolora_core.searches.attention.scaling.losses import Losses


@dataclass(frozen=True)
class Scored:
    """What is chosen by. Without finite losses `gain` and `curve` are None.

    gain    over the baseline at the largest size (nats; positive: better); its value is the score
    curve   paired difference to the baseline, size by size (positive: worse)
    guards  which of `finite`, `flops` and `parameters` it fails; only one without any may be selected
    """

    gain: Estimate | None
    curve: Mapping[str, Estimate] | None
    guards: tuple[str, ...]

    @property
    def score(self) -> float | None:
        """The gain in nats, higher is better."""
        return None if self.gain is None else self.gain.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score; None with one seed, of which it is not known."""
        own = self.gain
        return (own.lo, own.hi) if own is not None and np.isfinite([own.lo, own.hi]).all() else None

    @property
    def passed(self) -> bool:
        return not self.guards


def score(losses: Losses, program: str, baseline: str, flops: Mapping[str, float]) -> Scored:
    """Score and guards of a program, from the seeds that it has in common with the baseline.

    flops  of its training step as a multiple of the baseline's, by size

    StageError if it was not measured at the largest size of the baseline.
    """
    own = losses.values[losses.place(program)]
    if np.isinf(own).any() or np.isnan(own).all():
        return Scored(None, None, ("finite",))
    curve = paired_curve(losses, program, baseline)
    largest = max(paired_curve(losses, baseline, baseline), key=lambda size: _parameters(losses, baseline, size))
    if largest not in curve:
        raise StageError(f"{program} was not measured at {largest}, the largest size of {baseline}")
    worse = curve[largest]
    gain = Estimate(0.0 - worse.value, worse.se, worse.dof, 0.0 - worse.hi, 0.0 - worse.lo)
    return Scored(gain, curve, tuple(_failed(losses, program, baseline, flops)))


def _parameters(losses: Losses, program: str, size: str) -> float:
    return float(losses.n[losses.place(program), losses.sizes.index(size)])


def _failed(losses: Losses, program: str, baseline: str, flops: Mapping[str, float]) -> Iterator[str]:
    """The guards that a program fails."""
    mine, other = losses.n[losses.place(program)], losses.n[losses.place(baseline)]
    if max(flops.values()) > MOST_FLOPS:
        yield "flops"
    if np.nanmax(mine / other) > MOST_PARAMETERS:
        yield "parameters"
