"""What the first generations of a run tell of the rest: whether rewards vary, and what a generation takes.

The generations are the run's own: it is resumed from their commit.
"""

import logging
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from evolora_core.errors import StageError
from evolora_core.searches.adapters.ecology.events import Row
from evolora_core.searches.adapters.ecology.run import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FirstGenerations:
    """Measured on the first generations of an evolution."""

    generations: int
    generation_seconds: float  # of the last of them: the first one warms up
    generation_flops: float  # mean, without the bare host's answers
    peak_bytes: int  # most memory that the process has held; on an accelerator, that its tensors have
    rewarded: float  # share of the first answers to an item that were right
    practised: float  # share of the items for which practice found a right answer, the first answer included

    def rows(self) -> list[Row]:
        """Rows of the table `calibration`."""
        notes = {
            "generations": "first generations of the run, from which it was resumed",
            "generation_seconds": "seconds of the last of them, this machine",
            "generation_flops": "FLOPs of one of them",
            "peak_bytes": "most memory held, this machine",
            "rewarded": "share of items whose first answer was right",
            "practised": "share of items for which practice found a right answer",
        }
        return [{"key": key, "value": float(value), "note": notes[key]} for key, value in asdict(self).items()]


def measure(run: Run) -> FirstGenerations:
    """What the generations of `run` so far took and found. Raises StageError where they cannot teach anything; a family
    in which they cannot is logged.
    """
    state = run.state
    done = state.events["generations"]
    episodes = state.events["episodes"]
    if state.extinct or not episodes:
        why = "everybody was dead" if state.extinct else "nobody could pay for a ticket"
        raise StageError(
            f"calibrate: {why} after {len(done)} generations; lower ecology.economy.ticket, or raise "
            "ecology.economy.endowment"
        )
    right = np.array([row["correct"] for row in episodes if row["sample"] == 0])
    items: dict[tuple[int, int, str], bool] = {}
    for row in episodes:
        key = row["generation"], row["organelle"], row["task_id"]
        items[key] = items.get(key, False) or row["correct"]
    solved = np.array(list(items.values()))
    labelled = run.rule.sees_gold or run.config.memory.labels > 0
    if not run.horizon.arrivals:  # families that have not come yet may be easier, or harder
        _check_that_rewards_vary(solved, right, len(done), labelled or run.config.unrewarded == "go_on")
    if not labelled:
        _warn_of_what_is_never_right(run, episodes, len(done))
    return FirstGenerations(
        generations=len(done),
        generation_seconds=done[-1]["seconds"],
        generation_flops=(state.meter.total() - run.task.prices.spent) / len(done),
        peak_bytes=_peak_bytes(run.task.host.model.device),
        rewarded=float(right.mean()),
        practised=float(solved.mean()),
    )


def _check_that_rewards_vary(solved: np.ndarray, right: np.ndarray, generations: int, hopes: bool) -> None:
    if not (solved.any() or hopes):
        raise StageError(
            f"calibrate: none of {len(solved)} items of the first {generations} generations was ever answered "
            "correctly, so rewards cannot vary; choose easier families or depths, a stronger host, or raise "
            "ecology.plasticity.calls; where arms that see gold answers count, set ecology.unrewarded: go_on"
        )
    if right.all() and len(right):
        raise StageError(
            f"calibrate: all {len(right)} items of the first {generations} generations were answered correctly, so "
            "nothing can be learned; choose harder families or depths"
        )


def _warn_of_what_is_never_right(run: Run, episodes: Sequence[Row], generations: int) -> None:
    """Name each family of which neither the bare host, as it was priced, nor practice has answered an item rightly."""
    solved = {row["family"] for row in episodes if row["correct"]}
    solved |= {family for family, depth in run.task.cells if run.task.prices.accuracy[f"{family}/{depth}"]}
    for family in run.task.families:
        items = {row["task_id"] for row in episodes if row["family"] == family}
        if items and family not in solved:
            log.warning(
                "%s: none of %d items of the first %d generations was answered rightly, by the host or in practice; "
                "rewards teach nothing of it unless one is; choose easier depths or a stronger host, raise "
                "ecology.plasticity.calls, or leave it out",
                family,
                len(items),
                generations,
            )


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts in bytes there, in KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
