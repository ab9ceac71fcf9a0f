"""The end of a run: who answers what outside, chosen on the selection split at the run's own expense."""

import time
from pathlib import Path

import numpy as np

from evolora_core.compute import Meter
from evolora_core.ecology.state import State
from evolora_core.ecology.world import World
from evolora_core.evaluation.grading import answer_items, charge
from evolora_core.families import Item
from evolora_core.routing import HOST, ROUTINGS, Routes, choose_routes, write_routes

NO_OP = 1e-8  # norm of ΔW below which an adapter changes nothing


def shortlist(world: World, state: State) -> dict[str, list[int]]:
    """Slots worth asking, per family and under "" for all families: the two organelles with the most skill there.

    Asking everyone would cost population × selection answers, for organelles that their own episodes have ruled out.
    """
    slots = np.array([organelle.slot for organelle in state.living], dtype=np.int64)
    skill = world.skill(state)[slots]
    columns = {family: np.array([own == family for own, _ in world.cells]) for family, _ in world.cells}
    columns[""] = np.ones(len(world.cells), dtype=bool)
    return {
        name: slots[np.argsort(-skill[:, column].mean(axis=1), kind="stable")[:2]].tolist()
        for name, column in columns.items()
    }


def choose(world: World, state: State, selection: list[Item], routings: list[str], folder: Path) -> Meter:
    """Write `routes-ROUTING.json` for each router into `folder`; return the run's meter plus the cost of choosing."""
    started = time.perf_counter()
    listed = shortlist(world, state)
    # One question for each (slot, item): the host and the generalists answer everything, specialists their family.
    asked = {
        (slot, number): None
        for number, item in enumerate(selection)
        for slot in [HOST, *listed[""], *listed.get(item.family, [])]
    }
    outcomes = answer_items(
        world.host,
        state.population,
        [selection[number] for _, number in asked],
        [slot for slot, _ in asked],
        decoding=world.decoding,
    )
    answers = dict(zip(asked, outcomes, strict=True))
    norms = state.population.delta_norms()
    no_op = {organelle.slot for organelle in state.living if float(norms[organelle.slot]) <= NO_OP}
    for routing in routings:
        buckets: dict[str, list[int]] = {}
        for number, item in enumerate(selection):
            buckets.setdefault(ROUTINGS[routing](item), []).append(number)
        chosen = [
            choose_routes(
                {slot: [answers[slot, n] for n in numbers] for slot in [HOST, *listed.get(bucket, [])]},
                routing,
                no_op=no_op,
            )
            for bucket, numbers in sorted(buckets.items())
        ]
        write_routes(folder / f"routes-{routing}.json", joined(chosen))
    meter = Meter.from_state(state.meter.state())
    charge(meter, "routing", outcomes, time.perf_counter() - started)
    return meter


def joined(parts: list[Routes]) -> Routes:
    """One route table of several, which have different buckets."""
    return Routes(
        routing=parts[0].routing,
        table={bucket: slot for part in parts for bucket, slot in part.table.items()},
        accuracy={bucket: given for part in parts for bucket, given in part.accuracy.items()},
        n={bucket: count for part in parts for bucket, count in part.n.items()},
        no_op=tuple(sorted({slot for part in parts for slot in part.no_op})),
    )
