"""Trials of settings: what one may spend, and which of those that tuning tried is the best."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean


def best_trials(answered: Iterable[tuple[str, int, float | None]]) -> dict[str, int]:
    """The trial of each arm with the highest mean accuracy over the tuning seeds; a tie goes to the earlier trial.

    `answered` has (arm, trial, accuracy on a seed) in any order; None or NaN for a trial that could not be run, which
    loses to all that could.
    """
    accuracies: dict[tuple[str, int], list[float]] = defaultdict(list)
    for arm, trial, accuracy in answered:
        accuracies[arm, trial].append(-math.inf if accuracy is None or math.isnan(accuracy) else accuracy)
    # Rounded, since (0.1 + 0.2) / 2 is not (0 + 0.3) / 2 in floats; accuracies are shares of fewer items than 1e9.
    by_merit = sorted(accuracies, key=lambda own: (round(fmean(accuracies[own]), 12), -own[1]))
    return dict(by_merit)  # the last of an arm, which is its best, stays


@dataclass(frozen=True)
class Spent:
    """FLOPs of a trial of the arm whose compute is the budget; the part `fixed` is the same in a longer run."""

    flops: int
    fixed: int
    extinct: bool


def trial_budget(lead: Sequence[Spent], budget: float, generations: int, tried: int) -> tuple[int, float]:
    """FLOPs of a trial of an arm with a relative `budget`, and what share of its whole run's learning they pay for. A
    whole run of the lead has so many `generations`, its trials had `tried`.

    The mean of what the lead's trials cost: more where an arm may spend more than the lead; where it may spend less, as
    much (a fraction of a fraction hardly pays for the choice of a route), but never more than the arm's whole run, as
    these trials foretell it. What died out spent less and is left out of the mean.
    """
    lived = [spent for spent in lead if not spent.extinct] or lead
    mean, fixed = fmean(spent.flops for spent in lived), fmean(spent.fixed for spent in lived)
    whole = budget * (fixed + (mean - fixed) * generations / tried)
    flops = min(max(1.0, budget) * mean, whole)
    return round(flops), (flops - fixed) / (whole - fixed) if fixed < flops else flops / whole
