"""The candidates' answers to the selection items, from which routes are chosen."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, silent
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import answer_items, charge
from evolora_core.lora.answering.outcome import Decoding, Outcome
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.learned import FILE, Classifier, fit, prompt_features, write_classifier
from evolora_core.searches.adapters.routing.routes import Routes, choose_routes, in_buckets, write_routes
from evolora_core.searches.adapters.routing.shots import Shots, answer_shown

NO_OP = 1e-8  # norm of ΔW below which an adapter changes nothing
PROOF = 2.0  # standard errors by which a specialist must lead to be added up: one that learned nothing spoils the sum


def answer_as_each(
    host: Host,
    population: Population | None,
    items: Sequence[Item],
    slots: Sequence[int],
    *,
    decoding: Decoding,
) -> dict[int, list[Outcome]]:
    """Greedy outcomes of the host and of each of `slots` on the same items: `(1 + slots) x items` answers, batched."""
    candidates = [HOST, *(slot for slot in dict.fromkeys(slots) if slot != HOST)]
    n = len(items)
    questions, answering = list(items) * len(candidates), np.repeat(candidates, n)
    outcomes = answer_items(host, population, questions, answering, decoding=decoding)
    return {slot: outcomes[i * n : (i + 1) * n] for i, slot in enumerate(candidates)}


def no_ops(population: Population) -> set[int]:
    """The slots whose adapter changes nothing."""
    return set((~(population.delta_norms() > NO_OP)).nonzero().flatten().tolist())


def choose_among(
    host: Host,
    population: Population | None,
    selection: Sequence[Item],
    listed: Mapping[str, Sequence[int]],
    routings: Sequence[str],
    folder: Path,
    meter: Meter,
    *,
    decoding: Decoding,
    add_up: Callable[[list[int]], Population] | None = None,
    shots: Shots | None = None,
    progress: Progress = silent,
) -> None:
    """Write `routes-ROUTING.json` for each router into `folder`, and what the router `learned` has learned; charge
    `meter`.

    `listed` names the slots worth asking, or ways of `shots`: under a family, those that answer its items; under "",
    those that answer all. A way is asked anew for the router `single`, which cannot tell it the family.
    If "" has no slots, the candidate for all items is the sum of the specialists that are proven in their families:
    `add_up` of their slots gives a population whose last slot that is. Without `add_up`, or if fewer than two are
    proven, it is the one that leads most.
    """
    # One question for each (slot, item): the host and the generalists answer everything, specialists their family.
    answers: dict[tuple[int, int], Outcome] = {}
    untold: dict[tuple[int, int], Outcome] = {}  # of ways that are not told the family

    def ask(
        slots_of: Callable[[Item], Sequence[int]], into: dict[tuple[int, int], Outcome], tells: bool = True
    ) -> None:
        started = time.perf_counter()
        asked = [(slot, n) for n, item in enumerate(selection) for slot in dict.fromkeys(slots_of(item))]
        asked = [question for question in asked if question not in into]
        questions, slots = [selection[n] for _, n in asked], [slot for slot, _ in asked]
        told = [item.family for item in questions] if tells else None
        outcomes = answer_shown(host, population, questions, slots, shots, told, decoding=decoding, progress=progress)
        into.update(zip(asked, outcomes, strict=True))
        charge(meter, "routing", outcomes, time.perf_counter() - started)

    everywhere = list(listed.get("", []))
    ask(lambda item: [HOST, *everywhere, *listed.get(item.family, [])], answers)
    if not everywhere:
        everywhere = _ahead(selection, listed, answers, 1.0)[:1]
        ways = shots.ways if shots else {}
        summed = {name: [slot for slot in slots if slot not in ways] for name, slots in listed.items()}
        proven = _ahead(selection, summed, answers, PROOF)
        if len(proven) > 1 and add_up is not None:
            population = add_up(proven)
            everywhere = [population.capacity - 1]
        ask(lambda item: everywhere, answers)
    if shots and "single" in routings:
        ask(lambda item: [slot for slot in everywhere if slot in shots.ways], untold, tells=False)
    still = no_ops(population) if population else set()
    for routing in routings:
        # `single` cannot tell the family: its ways were asked without it, and no specialist is among its candidates.
        given, own = (answers | untold, {}) if routing == "single" else (answers, listed)
        routes = _routes(selection, routing, own, everywhere, given, still)
        write_routes(folder, routes)
    if "learned" in routings:
        write_classifier(folder / FILE, learn_router(host, selection, meter))


def _routes(
    selection: Sequence[Item],
    routing: str,
    listed: Mapping[str, Sequence[int]],
    everywhere: Sequence[int],
    answers: Mapping[tuple[int, int], Outcome],
    no_op: set[int],
) -> Routes:
    """The routes of one router. In each bucket the candidates are the host, those listed for its family, and those
    that answer everything.
    """
    chosen = []
    for places in in_buckets(selection, routing).values():
        slots = dict.fromkeys([HOST, *listed.get(selection[places[0]].family, []), *everywhere])
        by_slot = {slot: [answers[slot, place] for place in places] for slot in slots}
        chosen.append(choose_routes(by_slot, routing, no_op=no_op))
    return joined(chosen)


def _ahead(
    selection: Sequence[Item],
    listed: Mapping[str, Sequence[int]],
    answers: Mapping[tuple[int, int], Outcome],
    errors: float,
) -> list[int]:
    """The specialists that lead the host in their families by so many standard errors, the largest lead first."""
    leads: dict[int, float] = {}
    for family in sorted({item.family for item in selection}):
        numbers = [number for number, item in enumerate(selection) if item.family == family]
        by_slot = {slot: [answers[slot, n] for n in numbers] for slot in [HOST, *listed.get(family, [])]}
        routes = choose_routes(by_slot, "family", errors=errors)
        for slot in routes.slots:
            lead = routes.accuracy[family][str(slot)] - routes.accuracy[family][str(HOST)]
            leads[slot] = max(lead, leads.get(slot, 0.0))
    return sorted(leads, key=lambda slot: (-leads[slot], slot))


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
