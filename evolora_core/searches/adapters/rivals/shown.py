"""Labelled items before each item that fine-tuning reads or is asked: the nearest of its family, itself apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.template import Example
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.adapters.routing.shots import Shots, Solved, Way, feature_flops, fitting


@dataclass(frozen=True)
class Before:
    """The examples before each item, the nearest last, and what choosing them took in FLOPs."""

    examples: list[list[Example]]
    flops: int


def before(host: Host, items: Sequence[Item], labelled: Sequence[Solved], count: int, room: int) -> Before:
    """At most `count` labelled items before each, as many as leave `room` tokens of the host's context."""
    if not count or not items:
        return Before([[] for _ in items], 0)
    shots = Shots({0: Way(HOST, count + 1, "nearest")}, {HOST: list(labelled)})  # an item is nearest to itself
    _, found, flops = shots.before(host, items, [0] * len(items), [item.family for item in items])
    apart = [
        [example for example in own if example[0] != item.prompt][-count:]
        for item, own in zip(items, found, strict=True)
    ]
    return Before(fitting(host, [item.prompt for item in items], apart, room), sum(flops) + feature_flops(host, shots))
