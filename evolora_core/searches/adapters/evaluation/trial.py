"""How good a trial of settings is."""

import time
from collections.abc import Sequence
from pathlib import Path

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import charge
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.routes import ROUTINGS, Routes, families_told
from evolora_core.searches.adapters.routing.shots import Shots, answer_shown


def judge_trial(
    host: Host,
    population: Population,
    shots: Shots | None,
    items: Sequence[Item],
    routes: Routes,
    meter: Meter,
    *,
    decoding: Decoding,
    progress: Progress,
    folder: Path,
) -> float:
    """Accuracy on a tuning seed's holdout; the answers are charged to `meter` as tuning, and kept in `folder`."""
    started = time.perf_counter()
    outcomes = answer_shown(
        host,
        population,
        items,
        leaders(items, routes),
        shots,
        families_told(items, routes),  # as the buckets are: of `learned` as if it guessed rightly
        decoding=decoding,
        progress=progress,
        folder=folder,
    )
    charge(meter, "tuning", outcomes, time.perf_counter() - started)
    return sum(outcome.grade.correct for outcome in outcomes) / len(outcomes)


def leaders(items: Sequence[Item], routes: Routes) -> list[int]:
    """The slot that was best on the selection split for each item's bucket, whether or not it was proven better than
    the host; the host where it was best itself. The bucket is the item's own, for the router `learned` too.

    After a fraction of the budget few leads are beyond chance; by the routes themselves all trials would look alike.
    A tie goes to the lower slot, the host's first; what selection never saw, to where routes send it.
    """
    best = {
        bucket: max(map(int, tried), key=lambda slot: (tried[str(slot)], -slot))
        for bucket, tried in routes.accuracy.items()
    }
    return [best.get(ROUTINGS[routes.routing](item), HOST) for item in items]
