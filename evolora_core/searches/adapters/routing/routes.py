"""Routes: from the graded answers of every candidate to a table of which candidate answers what.

Knows nothing of hosts or tensors; outcomes in, a small JSON document out.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evolora_core.engine.artifacts import write_json
from evolora_core.errors import DataError
from evolora_core.language.families.base import Item
from evolora_core.lora.population.slots import HOST

if TYPE_CHECKING:
    from evolora_core.lora.answering.outcome import Outcome

EVERYTHING = ""  # bucket of `single`

# routing -> bucket of an item
ROUTINGS: dict[str, Callable[[Item], str]] = {
    "single": lambda item: EVERYTHING,
    "family": lambda item: item.family,
    "cell": lambda item: f"{item.family}/{item.depth}",
    "reselected": lambda item: item.family,
    "learned": lambda item: item.family,  # as the selection split knows it; elsewhere the classifier guesses
}


@dataclass(frozen=True)
class Routes:
    """Who answers what.

    table       bucket -> slot (-1 = host); a bucket is a family for `family` and `learned`, a family and depth for
                `cell`, and "" (everything) for `single`; the host answers in buckets that selection never saw
    accuracy    bucket -> slot (as text) -> accuracy on the selection split, for every candidate
    n           bucket -> selection items
    no_op       slots whose adapter changes nothing, and which were therefore no candidates
    """

    routing: str
    table: dict[str, int]
    accuracy: dict[str, dict[str, float]] = field(default_factory=dict)
    n: dict[str, int] = field(default_factory=dict)
    no_op: tuple[int, ...] = ()

    @property
    def slots(self) -> list[int]:
        """Slots that the table uses, the host left out, in order."""
        return sorted({slot for slot in self.table.values() if slot != HOST})


def choose_routes(
    outcomes_by_slot: Mapping[int, Sequence["Outcome"]],
    routing: str,
    *,
    no_op: Collection[int] = (),
    errors: float = 1.0,
) -> Routes:
    """The best candidate of each bucket that leads the host, by accuracy on the selection split.

    Every slot, the host (-1) among them, must have answered the same items in the same order. A slot is chosen over
    the host only if it is ahead by more than so many standard `errors` of the paired difference: the best of several
    equals is not better, but a gain is not thrown away for want of a proof either. Among slots a tie goes to the higher
    mean score, then the cheaper answers, then the lower number. Slots in `no_op` are left out wherever another
    candidate than the host exists; alone they cannot beat the host either.
    """
    if routing not in ROUTINGS:
        raise ValueError(f"unknown routing '{routing}'; choose from {', '.join(ROUTINGS)}")
    if HOST not in outcomes_by_slot:
        raise ValueError("the bare host (-1) must answer the selection items too: it is always a candidate")
    items = [outcome.item for outcome in outcomes_by_slot[HOST]]
    for slot, outcomes in outcomes_by_slot.items():
        if [outcome.item.task_id for outcome in outcomes] != [item.task_id for item in items]:
            raise ValueError(f"slot {slot} answered other selection items than the host")
    organelles = sorted(slot for slot in outcomes_by_slot if slot != HOST)
    candidates = [slot for slot in organelles if slot not in no_op] or organelles

    members = in_buckets(items, routing)
    table: dict[str, int] = {}
    accuracy: dict[str, dict[str, float]] = {}
    for bucket, numbers in members.items():
        merits = {slot: _merit([outcomes_by_slot[slot][number] for number in numbers]) for slot in [HOST, *organelles]}
        accuracy[bucket] = {str(slot): merit[0] for slot, merit in merits.items()}
        right = {slot: np.array([outcomes_by_slot[slot][n].grade.correct for n in numbers]) for slot in merits}
        ahead = [slot for slot in candidates if _leads(right[slot], right[HOST], errors)]
        table[bucket] = max(ahead, key=lambda slot: (merits[slot], -slot), default=HOST)
    return Routes(
        routing=routing,
        table=table,
        accuracy=accuracy,
        n={bucket: len(numbers) for bucket, numbers in members.items()},
        no_op=tuple(sorted(set(no_op) & set(organelles))),
    )


def _leads(right: np.ndarray, host: np.ndarray, errors: float) -> bool:
    """Whether right answers `[items]` (bool) lead the host's by more than so many standard errors of the paired
    difference.
    """
    wins, losses = int((right & ~host).sum()), int((~right & host).sum())
    return wins - losses > errors * math.sqrt(wins + losses)


def in_buckets(items: Sequence[Item], routing: str) -> dict[str, list[int]]:
    """The places of the items in each bucket of a router, buckets by name."""
    found: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        found.setdefault(ROUTINGS[routing](item), []).append(place)
    return dict(sorted(found.items()))


def _merit(outcomes: Sequence["Outcome"]) -> tuple[float, float, float]:
    """(accuracy, mean score, negative mean FLOPs); larger is better."""
    return (
        float(np.mean([outcome.grade.correct for outcome in outcomes])),
        float(np.mean([outcome.grade.score for outcome in outcomes])),
        -float(np.mean([outcome.flops for outcome in outcomes])),
    )


def route(items: Sequence[Item], routes: Routes, guessed: Sequence[str] | None = None) -> np.ndarray:
    """Slots `[len(items)]` (int64) that answer the items; -1 = host. `learned` needs the families that its classifier
    guessed; the items' own are not looked at.
    """
    if (routes.routing == "learned") != (guessed is not None):
        raise ValueError("the families that a classifier guessed are what the router `learned` goes by, and no other")
    bucket = ROUTINGS[routes.routing]
    buckets = guessed if guessed is not None else [bucket(item) for item in items]
    return np.array([routes.table.get(one, HOST) for one in buckets], dtype=np.int64)


def families_told(items: Sequence[Item], routes: Routes, guessed: Sequence[str] | None = None) -> list[str]:
    """The family that a router tells who answers each item: what it guessed for `learned`, none for `single`."""
    if guessed is not None:
        return list(guessed)
    return ["" if routes.routing == "single" else item.family for item in items]


def write_routes(folder: Path, routes: Routes) -> None:
    """Write the routes of one router into a run's folder, as JSON."""
    write_json(_file(folder, routes.routing), asdict(routes))


def routings_in(folder: Path) -> list[str]:
    """The routers whose routes a run's folder holds, by name."""
    return sorted(path.stem.removeprefix("routes-") for path in folder.glob("routes-*.json"))


def read_routes(folder: Path, routing: str) -> Routes:
    """The routes of a router that a run's folder holds. DataError names the file and what is wrong with it."""
    path = _file(folder, routing)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Routes(**{**document, "no_op": tuple(document["no_op"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a route table ({error}); run the stage that chose it again") from error


def _file(folder: Path, routing: str) -> Path:
    return folder / f"routes-{routing}.json"
