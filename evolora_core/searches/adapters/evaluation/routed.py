"""A split of items, answered once for all the routers of a run."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, silent
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import charge
from evolora_core.lora.answering.outcome import Decoding, Outcome
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.learned import Classifier, guess_families
from evolora_core.searches.adapters.routing.routes import Routes, families_told, route
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
    slots: dict[str, np.ndarray] = {}
    told: dict[str, Sequence[str]] = {}
    extra: dict[str, np.ndarray] = {}
    for name, table in routes.items():
        guessed = None
        if name == "learned":
            if classifier is None:
                raise ValueError("the router `learned` needs its classifier")
            guessed, extra[name] = guess_families(host, classifier, items, meter)
        slots[name] = route(items, table, guessed)
        told[name] = families_told(items, table, guessed)
    slots = slots or {NOBODY: np.full(len(items), HOST)}
    questions = {
        name: [
            (i, int(slot), told[name][i] if shots and int(slot) in shots.ways else "") for i, slot in enumerate(chosen)
        ]
        for name, chosen in slots.items()
    }
    asked = list(dict.fromkeys(question for own in questions.values() for question in own))
    started = time.perf_counter()
    outcomes = answer_shown(
        host,
        population,
        [items[i] for i, _, _ in asked],
        [slot for _, slot, _ in asked],
        shots,
        [family for _, _, family in asked],
        decoding=decoding,
        progress=progress,
        folder=folder,
    )
    charge(meter, "evaluation", outcomes, time.perf_counter() - started)
    given = dict(zip(asked, outcomes, strict=True))
    answers = {name: [given[question] for question in own] for name, own in questions.items()}
    for name, more in extra.items():
        answers[name] = [replace(o, flops=o.flops + int(flops)) for o, flops in zip(answers[name], more, strict=True)]
    return answers
