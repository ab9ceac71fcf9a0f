"""A split of items, answered once for all the routers of a run."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, silent
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import charge
from evolora_core.lora.answering.outcome import Decoding, Outcome
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.learned import Classifier
from evolora_core.searches.adapters.routing.routes import Routes
from evolora_core.searches.adapters.routing.sending import Sent, all_to, send
from evolora_core.searches.adapters.routing.shots import Shots, answer_shown

NOBODY = "host"  # in the place of a router, where there is none


def answer_by_router(
    host: Host,
    population: Population | None,
    items: Sequence[Item],
    routes: Mapping[str, Routes],
    classifier: Classifier | None,
    meter: Meter,
    *,
    decoding: Decoding,
    shots: Shots | None = None,
    progress: Progress = silent,
    folder: Path | None = None,
) -> dict[str, list[Outcome]]:
    """The outcomes of `items` under each router of `routes`, in their order; without routes the bare host's, under
    `NOBODY`. The router `learned` needs its `classifier`, whose FLOPs are part of its answers' price.

    An item that two routers send to the same slot has the same greedy answer, so it is answered, and charged, once;
    where routes lead to ways of `shots`, only if both tell the way the same family.
    """
    sent = {name: send(host, items, table, classifier, meter) for name, table in routes.items()}
    sent = sent or {NOBODY: all_to(HOST, items)}
    questions = {name: _questions(one, shots) for name, one in sent.items()}
    asked = list(dict.fromkeys(question for own in questions.values() for question in own))
    started = time.perf_counter()
    outcomes = answer_shown(
        host,
        population,
        [items[i] for i, _, _ in asked],
        [candidate for _, candidate, _ in asked],
        shots,
        [family for _, _, family in asked],
        decoding=decoding,
        progress=progress,
        folder=folder,
    )
    charge(meter, "evaluation", outcomes, time.perf_counter() - started)
    given = dict(zip(asked, outcomes, strict=True))
    return {
        name: [
            replace(given[question], flops=given[question].flops + int(flops))
            for question, flops in zip(own, sent[name].flops, strict=True)
        ]
        for name, own in questions.items()
    }


def _questions(sent: Sent, shots: Shots | None) -> list[tuple[int, int, str]]:
    """(place of the item, candidate, family that the candidate is told), of which equal ones have equal answers."""
    ways = shots.ways if shots else {}
    return [
        (place, candidate, told if candidate in ways else "")
        for place, (candidate, told) in enumerate(zip(sent.candidates.tolist(), sent.told, strict=True))
    ]
