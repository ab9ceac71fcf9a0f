"""Which of the settings that tuning tried is the best."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean


def best_trials(answered: Iterable[tuple[str, int, float]]) -> dict[str, int]:
    """The trial of each arm with the highest mean accuracy over the tuning seeds; a tie goes to the earlier trial.

    `answered` has (arm, trial, accuracy on a seed) in any order.
    """
    accuracies: dict[tuple[str, int], list[float]] = defaultdict(list)
    for arm, trial, accuracy in answered:
        accuracies[arm, trial].append(accuracy)
    # Rounded, since (0.1 + 0.2) / 2 is not (0 + 0.3) / 2 in floats; accuracies are shares of fewer items than 1e9.
    by_merit = sorted(accuracies, key=lambda own: (round(fmean(accuracies[own]), 12), -own[1]))
    return dict(by_merit)  # the last of an arm, which is its best, stays
