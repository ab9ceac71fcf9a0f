"""The frontier: what an arm's one adapter gains and what that costs elsewhere, with its ΔW scaled after training.

Scaling ΔW leads from the bare host (0) to the adapter as trained (1) and beyond, as WiSE-FT does with whole weights
(Wortsman et al. 2022, arXiv 2109.01903): what was forgotten can be bought back with some of the gain.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, silent
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import charge
from evolora_core.lora.answering.outcome import Decoding, Outcome
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.shots import Shots, Solved, Way, answer_shown

SPLITS = ("holdout_id", "retention")
TRAINED = 1.0  # the strength of the adapter as it is


def trace_frontier(
    host: Host,
    adapter: Adapter | None,
    answered: Mapping[str, Sequence[Outcome]],
    strengths: Sequence[float],
    wanted: int,
    meter: Meter,
    *,
    shown: tuple[Way, Sequence[Solved]] | None = None,
    decoding: Decoding,
    progress: Progress = silent,
    folder: Path | None = None,
) -> list[dict[str, str | float | int]]:
    """Rows {strength, split, n, correct} of the table `frontier`: how many items are answered rightly at each strength.

    `answered[split]` are the outcomes of `adapter` as trained (strength 1) on the whole split; `wanted` of its items,
    evenly spread, are answered with ΔW times every other strength, all in one batch, charged to `meter` as evaluation.
    Without an adapter the bare host, whose outcomes they then are, answers alike at every strength, and nothing is
    asked. `shown` is the way in which the adapter shows examples, and these. `progress` and `folder` as for
    `answer_items`.
    """
    chosen = {split: [answered[split][i] for i in spread(len(answered[split]), wanted)] for split in SPLITS}
    others = [strength for strength in strengths if strength != TRAINED] if adapter else []
    answers = {(s, split): chosen[split] for s in strengths if s not in others for split in SPLITS}
    if adapter and others:
        started = time.perf_counter()
        items = [outcome.item for split in SPLITS for outcome in chosen[split]]
        shots = None
        if shown:
            ways = {slot: replace(shown[0], slot=slot) for slot in range(len(others))}
            shots = Shots(ways, dict.fromkeys(ways, shown[1]))
        outcomes = answer_shown(
            host,
            at_strengths(host, adapter, others),
            items * len(others),
            np.repeat(np.arange(len(others)), len(items)).tolist(),
            shots,
            None,
            decoding=decoding,
            progress=progress,
            folder=folder,
        )
        charge(meter, "evaluation", outcomes, time.perf_counter() - started)
        given = iter(outcomes)
        answers |= {(s, split): [next(given) for _ in chosen[split]] for s in others for split in SPLITS}
    return [
        {
            "strength": strength,
            "split": split,
            "n": len(outcomes),
            "correct": sum(outcome.grade.correct for outcome in outcomes),
        }
        for (strength, split), outcomes in sorted(answers.items())
    ]


def at_strengths(host: Host, adapter: Adapter, strengths: Sequence[float]) -> Population:
    """A population in whose slot i is the adapter with its ΔW times `strengths[i]`."""
    population = Population.empty(host, len(strengths), adapter.rank, scale=adapter.scale)
    for slot, strength in enumerate(strengths):
        population.put(slot, adapter.scaled(strength))
    return population


def spread(size: int, wanted: int) -> np.ndarray:
    """Places `[min(size, wanted)]` at equal distances. A split is in the order of its cells: each has its share."""
    wanted = min(size, wanted)
    return np.arange(wanted) * size // max(wanted, 1)
