"""The end of a run: who answers what outside, chosen on the selection split at the run's own expense."""

import time
from pathlib import Path

import numpy as np

from evolora_core.compute import Meter
from evolora_core.ecology.state import State
from evolora_core.ecology.world import World
from evolora_core.families import Item
from evolora_core.routing import answer_as_each, choose_routes, write_routes

NO_OP = 1e-8  # norm of ΔW below which an adapter changes nothing


def shortlist(world: World, state: State) -> list[int]:
    """Slots worth asking: per family the two organelles with the most skill there, and the two with the most overall.

    Asking everyone would cost population × selection answers, for organelles that their own episodes have already
    ruled out.
    """
    if not state.living:
        return []
    slots = np.array([organelle.slot for organelle in state.living])
    skill = world.skill(state)[slots]
    families = sorted({family for family, _ in world.cells})
    columns = [np.array([own == family for own, _ in world.cells]) for family in families]
    merits = [skill[:, column].mean(axis=1) for column in columns] + [skill.mean(axis=1)]
    return sorted({int(slots[i]) for merit in merits for i in np.argsort(-merit, kind="stable")[:2]})


def choose(world: World, state: State, selection: list[Item], routings: list[str], folder: Path) -> Meter:
    """Write `routes-ROUTING.json` for each router into `folder`; return the run's meter plus the cost of choosing."""
    started = time.perf_counter()
    slots = shortlist(world, state)
    outcomes = answer_as_each(world.host, state.population, selection, slots, decoding=world.decoding)
    norms = state.population.delta_norms()
    no_op = {slot for slot in slots if float(norms[slot]) <= NO_OP}
    for routing in routings:
        write_routes(folder / f"routes-{routing}.json", choose_routes(outcomes, routing, no_op=no_op))
    flat = [outcome for answers in outcomes.values() for outcome in answers]
    meter = Meter.from_state(state.meter.state())
    tokens = sum(outcome.prompt_tokens + outcome.answer_tokens for outcome in flat)
    meter.add("routing", flops=sum(o.flops for o in flat), tokens=tokens, seconds=time.perf_counter() - started)
    return meter
