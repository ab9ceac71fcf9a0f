"""The end of a run: choose the routes on the selection split, and charge the run for it.

The candidate that answers everything is made here: the sum of the learners that are proven better than the host in
their families.
"""

from pathlib import Path

from evolora_core.ecology.state import Organelle, State, incumbents
from evolora_core.ecology.world import World
from evolora_core.families.base import Item
from evolora_core.meter import Meter
from evolora_core.population.merge import add_up
from evolora_core.population.stack import Population
from evolora_core.routing.candidates import choose_among, no_ops


def shortlist(world: World, state: State) -> dict[str, list[int]]:
    """One candidate slot for each family, and under "" one for all families; no slot where every adapter still is the
    host's.

    For a family it is the learner of its niche (`incumbents`). A niche without a learner offers its organelle with most
    skill. For all families it is `single`'s organelle, or the youngest child of a merge during the run. There is one
    candidate each because asking costs as much as learning, and because the best of many on the selection split is
    often the best by luck.
    """
    still = no_ops(state.population)
    able = [organelle for organelle in state.living if organelle.slot not in still]
    skill = world.skill(state)

    taught = incumbents(able)
    listed = {}
    for family, column in zip(world.families, world.inside, strict=True):
        by_skill = sorted(able, key=lambda o: (-skill[o.slot, column].mean(), o.id))
        best = [taught[family]] if family in taught else by_skill[:1]
        listed[family] = [organelle.slot for organelle in best]
    general = [organelle for organelle in able if organelle.origin == "merge" or not organelle.niche]
    listed[""] = [organelle.slot for organelle in general[-1:]]
    return listed


def sum_of(world: World, state: State, slots: list[int]) -> Population:
    """Add up the learners in these slots; the sum is entered as a merge, born after the last generation, and lives in a
    slot of its own at the end of the population.
    """
    weight = world.config.assimilation.sum_weight
    parents = [organelle for slot in slots for organelle in state.living if organelle.slot == slot]
    adapter = add_up([state.population.get(slot) for slot in slots], weight)
    state.population = state.population.joined_by(world.host, adapter)
    child = Organelle(
        id=len(state.organelles),
        slot=state.population.capacity - 1,
        rank=adapter.rank,
        origin="merge",
        born=state.generation,
        niche="",
        learning_rate=parents[0].learning_rate,
        temperature=parents[0].temperature,
        parents=tuple(parent.id for parent in parents),
    )
    state.organelles.append(child)
    state.events["lineage"] += [
        {"child": child.id, "parent": parent.id, "role": "parent", "generation": state.generation, "weight": weight}
        for parent in parents
    ]
    return state.population


def choose(world: World, state: State, selection: list[Item], routings: list[str], folder: Path) -> Meter:
    """Write `routes-ROUTING.json` for each router into `folder`; return the run's meter plus the cost of choosing."""
    meter = Meter.from_state(state.meter.state())
    choose_among(
        world.host,
        state.population,
        selection,
        shortlist(world, state),
        routings,
        folder,
        meter,
        decoding=world.decoding,
        add_up=(lambda slots: sum_of(world, state, slots)) if world.config.assimilation.sum_weight else None,
    )
    return meter
