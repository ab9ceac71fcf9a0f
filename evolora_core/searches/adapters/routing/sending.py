"""A router at work: the candidate to which it sends each item, and what it knows and costs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.routing.learned import Classifier, guess_families
from evolora_core.searches.adapters.routing.routes import Routes, families_told, route


@dataclass(frozen=True)
class Sent:
    """For each item: the candidate that answers it, a slot or a way of showing examples; the family that the candidate
    is told, "" for none; and what asking the router took in FLOPs. Arrays are int64 `[items]`.
    """

    candidates: np.ndarray
    told: list[str]
    flops: np.ndarray


def all_to(candidate: int, items: Sequence[Item]) -> Sent:
    """All items to one candidate, which is told no family; no router is asked."""
    size = len(items)
    return Sent(np.full(size, candidate, dtype=np.int64), [""] * size, np.zeros(size, dtype=np.int64))


def send(
    host: Host, items: Sequence[Item], routes: Routes | None, classifier: Classifier | None, meter: Meter | None = None
) -> Sent:
    """Where the router of `routes` sends the items; without routes, to the bare host.

    The router `learned` goes by the guess of its `classifier`, whose FLOPs are charged to `evaluation` if there is a
    meter; the others go by what an item states, which costs nothing. ValueError where `learned` has no classifier.
    """
    if routes is None or not items:
        return all_to(HOST, items)
    guessed, flops = None, np.zeros(len(items), dtype=np.int64)
    if routes.routing == "learned":
        if classifier is None:
            raise ValueError("the router `learned` needs its classifier")
        guessed, flops = guess_families(host, classifier, items, meter)
    return Sent(route(items, routes, guessed), families_told(items, routes, guessed), flops)
