"""The end of a run: choose the routes on the selection split, and charge the run for it.

The candidate that answers everything is made here: the sum of the learners that are proven better than the host in
their families.
"""

from collections.abc import Sequence

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.lora.population.merge import add_up
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.ecology.merit import skill_of
from evolora_core.searches.adapters.ecology.organelle import incumbents
from evolora_core.searches.adapters.ecology.phases.rehearsing import rehearsed
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.routing.candidates import choose_among, no_ops
from evolora_core.searches.adapters.routing.shots import Shots, Solved, Way, feature_flops, write_shots


def shortlist(run: Run) -> dict[str, list[int]]:
    """One candidate slot for each family, and under "" one for all families; no slot where every adapter still is the
    host's, unless what it remembers may be shown.

    For a family it is the learner of its niche (`incumbents`). A niche without a learner offers its organelle with most
    skill, or where it has none, the one of all that has. For all families it is `single`'s organelle, or the youngest
    child of a merge during the run. There is one candidate each because asking costs as much as learning, and because
    the best of many on the selection split is often the best by luck.
    """
    still = no_ops(run.state.population)
    if run.config.memory.answering:
        still = still - {own.slot for own in run.state.living if run.state.buffers[own.id].memories}
    able = [organelle for organelle in run.state.living if organelle.slot not in still]
    skill, taught = skill_of(run), incumbents(able)
    listed = {}
    for family, column in zip(run.task.families, run.task.inside, strict=True):
        by_skill = sorted(able, key=lambda o: (o.niche != family, -skill[o.slot, column].mean(), o.id))
        best = [taught[family]] if family in taught else by_skill[:1]
        listed[family] = [organelle.slot for organelle in best]
    general = [organelle for organelle in able if organelle.origin == "merge" or not organelle.niche]
    listed[""] = [organelle.slot for organelle in general[-1:]]
    return listed


def sum_of(run: Run, slots: Sequence[int], meter: Meter) -> Population:
    """Add up the learners in these slots; the sum is entered as a merge, born after the last generation, and lives in a
    slot of its own at the end of the population. `meter` is charged for what it still learns.
    """
    state, weight = run.state, run.config.assimilation.sum_weight
    parents = [organelle for slot in slots for organelle in state.living if organelle.slot == slot]
    adapter = add_up([state.population.get(slot) for slot in slots], weight)
    if run.config.assimilation.rehearsal:
        learned = rehearsed(run, adapter, parents, meter)
        adapter = learned if np.isfinite(learned.norm()) else adapter
    state.add_sum(run.task.host, adapter, parents, weight)
    return state.population


def remembered(run: Run, slots: Sequence[int]) -> Shots | None:
    """The ways in which these slots show what they remember, the latest first; None where the suite asks for none."""
    counts = dict.fromkeys(run.config.memory.answering)
    if not counts:
        return None
    task, of_slot = run.task, {organelle.slot: organelle for organelle in run.state.living}
    solved = {slot: list[Solved]() for slot in slots}
    for slot, own in solved.items():
        latest = {memory.item: memory for memory in run.state.buffers[of_slot[slot].id].memories.values()}
        for memory in reversed(latest.values()):
            item = task.items[memory.item]
            own.append(Solved(item.family, item.prompt, task.host.decode(list(memory.tokens)).strip()))
    first = run.state.population.capacity + 1  # the slots before are taken, the last of them by the sum of learners
    ways = (Way(slot, count, "nearest") for slot in slots for count in counts)
    return Shots(dict(enumerate(ways, first)), solved)


def choose(run: Run, routings: Sequence[str]) -> Meter:
    """Write `routes-ROUTING.json` for each router into the run's folder; return its meter plus the cost of choosing."""
    meter, listed = Meter.from_state(run.state.meter.state()), shortlist(run)
    shots = remembered(run, sorted({slot for slots in listed.values() for slot in slots}))
    if shots:
        write_shots(run.folder, shots)
        meter.add("routing", feature_flops(run.task.host, shots), 0, 0.0)
        numbers = {slot: [number for number, way in shots.ways.items() if way.slot == slot] for slot in shots.solved}
        listed = {name: [*slots, *(n for slot in slots for n in numbers[slot])] for name, slots in listed.items()}
    choose_among(
        run.task.host,
        run.state.population,
        run.task.selection,
        listed,
        routings,
        run.folder,
        meter,
        decoding=run.task.decoding,
        add_up=(lambda slots: sum_of(run, slots, meter)) if run.config.assimilation.sum_weight else None,
        shots=shots,
    )
    return meter
