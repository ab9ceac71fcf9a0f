"""The learning rates of a program: each size is tried with every rate of the grid, and takes the best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.errors import StageError
from evolora_core.searches.attention.judging.measure import Measured
from evolora_core.searches.attention.panel import Panel, Task, diverged, mend
from evolora_core.searches.attention.seeds import STRIDE

_TUNING = 900  # added to the first training seed of a run seed: a seed that is used for nothing else


@dataclass(frozen=True)
class Tuned:
    """The chosen rate by size, and the mean loss (nats) of each rate that was tried; infinite where it diverged."""

    rates: dict[str, float]
    tried: dict[str, dict[float, float]]


def trials(rates: Sequence[float]) -> int:
    """Trainings that tuning one size takes: a grid of one rate leaves nothing to try."""
    return len(rates) if len(rates) > 1 else 0


def tune(
    panel: Panel, name: str, source: str, sizes: Sequence[str], run_seed: int, meter: Meter, report: Progress
) -> Tuned:
    """Try the rates of the panel's training at each size. A rate with which the training diverges is never chosen.

    StageError where none is left at a size, or where a trial ends for another reason, such as its time.
    """
    rates = panel.training.rates
    tried: dict[str, dict[float, float]] = {size: {} for size in sizes}
    if not trials(rates):
        return Tuned(dict.fromkeys(sizes, rates[0]), tried)
    tasks = [Task(source, size, STRIDE * run_seed + _TUNING, rate) for size in sizes for rate in rates]
    found: list[Measured] = []
    for task, own in zip(tasks, panel.map(panel.measure, tasks), strict=True):
        losses, rate = tried[task.size], task.rate or 0.0
        losses[rate] = math.inf if own.losses is None else float(own.losses.mean())
        none_left = len(losses) == len(rates) and min(losses.values()) == math.inf
        if own.rejection and (none_left or not diverged(own.rejection)):
            where = f"at size {task.size} with rate {rate:g}"
            raise StageError(f"{name} cannot be trained {where}: {own.rejection.why}; {mend(own.rejection)}")
        found.append(own)
        report(len(found), len(tasks), f"size {task.size}, rate {rate:g}: {losses[rate]:.3f}")
    plain = {task.size: own.flops for task, own in zip(tasks, found, strict=True) if own.flops}
    for task, own in zip(tasks, found, strict=True):
        meter.add("tuning", panel.flops(own, task.size, plain), 0, own.cpu_seconds)
    return Tuned({size: min(losses, key=lambda rate: losses[rate]) for size, losses in tried.items()}, tried)
