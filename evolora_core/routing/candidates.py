"""The candidates' answers to the selection items, from which routes are chosen."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from evolora_core.compute import Meter
from evolora_core.evaluation.grading import Decoding, Outcome, answer_items, charge
from evolora_core.families import Item
from evolora_core.hosts import Host
from evolora_core.population.stack import Population
from evolora_core.routing.learned import FILE, Classifier, fit, prompt_features, write_classifier
from evolora_core.routing.routes import HOST, ROUTINGS, Routes, choose_routes, write_routes


def answer_as_each(
    host: Host,
    population: Population | None,
    items: Sequence[Item],
    slots: Sequence[int],
    *,
    decoding: Decoding,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, list[Outcome]]:
    """Greedy outcomes of the host and of each of `slots` on the same items: `(1 + slots) x items` answers, batched."""
    candidates = [HOST, *(slot for slot in dict.fromkeys(slots) if slot != HOST)]
    n = len(items)
    questions, answering = list(items) * len(candidates), np.repeat(candidates, n)
    outcomes = answer_items(host, population, questions, answering, decoding=decoding, progress=progress)
    return {slot: outcomes[i * n : (i + 1) * n] for i, slot in enumerate(candidates)}


def choose_among(
    host: Host,
    population: Population,
    selection: Sequence[Item],
    listed: Mapping[str, Sequence[int]],
    routings: Sequence[str],
    folder: Path,
    meter: Meter,
    *,
    decoding: Decoding,
    no_op: Collection[int] = (),
) -> None:
    """Write `routes-ROUTING.json` for each router into `folder`, and what the router `learned` has learned; charge
    `meter`.

    `listed` names the slots worth asking: under a family, those that answer its items; under "", those that answer all.
    """
    # One question for each (slot, item): the host and the generalists answer everything, specialists their family.
    started = time.perf_counter()
    everywhere = listed.get("", [])
    asked = {
        (slot, number): None
        for number, item in enumerate(selection)
        for slot in [HOST, *everywhere, *listed.get(item.family, [])]
    }
    outcomes = answer_items(
        host,
        population,
        [selection[number] for _, number in asked],
        [slot for slot, _ in asked],
        decoding=decoding,
    )
    answers = dict(zip(asked, outcomes, strict=True))
    charge(meter, "routing", outcomes, time.perf_counter() - started)
    for routing in routings:
        buckets: dict[str, list[int]] = {}
        for number, item in enumerate(selection):
            buckets.setdefault(ROUTINGS[routing](item), []).append(number)
        chosen = []
        for _, numbers in sorted(buckets.items()):
            own = [] if routing == "single" else listed.get(selection[numbers[0]].family, [])
            slots = dict.fromkeys([HOST, *own, *everywhere])
            by_slot = {slot: [answers[slot, n] for n in numbers] for slot in slots}
            chosen.append(choose_routes(by_slot, routing, no_op=no_op))
        write_routes(folder / f"routes-{routing}.json", joined(chosen))
    if "learned" in routings:
        write_classifier(folder / FILE, learn_router(host, selection, meter))


def learn_router(host: Host, selection: Sequence[Item], meter: Meter | None = None) -> Classifier:
    """Fit the router `learned` to the selection prompts; their features are charged to the run's meter."""
    started = time.perf_counter()
    features, flops = prompt_features(host, selection)
    classifier = fit(features, [item.family for item in selection])
    if meter is not None:
        meter.add("routing", int(flops.sum()), 0, time.perf_counter() - started)
    return classifier


def joined(parts: Sequence[Routes]) -> Routes:
    """One route table of several, which have different buckets."""
    return Routes(
        routing=parts[0].routing,
        table={bucket: slot for part in parts for bucket, slot in part.table.items()},
        accuracy={bucket: given for part in parts for bucket, given in part.accuracy.items()},
        n={bucket: count for part in parts for bucket, count in part.n.items()},
        no_op=tuple(sorted({slot for part in parts for slot in part.no_op})),
    )
