"""Ways of doing the same work, side by side in one run: these machines are noisy, ratios are not."""

import time
from collections.abc import Callable, Mapping
from statistics import median

from tqdm import tqdm

Row = dict[str, str | float | None]


def side_by_side(ways: Mapping[str, Callable[[], object]], repeats: int, title: str) -> dict[str, float]:
    """Median seconds of each way. All take turns `repeats` times, after a round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    rounds = [(repeat, name) for repeat in range(repeats + 1) for name in ways]
    for repeat, name in tqdm(rounds, desc=title, unit="run", leave=False):
        taken = clocked(ways[name])
        if repeat:
            seconds[name].append(taken)
    return {name: median(taken) for name, taken in seconds.items()}


def clocked(way: Callable[[], object]) -> float:
    """Seconds of one call, an accelerator's work included."""
    import torch

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    wait()
    started = time.perf_counter()
    way()
    wait()
    return time.perf_counter() - started


def row(measure: str, ours: float, other: float | None, unit: str, note: str) -> Row:
    """One line of a benchmark's table."""
    return {
        "measure": measure,
        "ours": float(f"{ours:.4g}"),
        "other": None if other is None else float(f"{other:.4g}"),
        "ratio": round(ours / other, 4) if other else None,
        "unit": unit,
        "note": note,
    }
