"""The end of a run: who answers what outside, chosen on the selection split at the run's own expense."""

from pathlib import Path

import numpy as np

from evolora_core.compute import Meter
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.world import World
from evolora_core.families import Item
from evolora_core.routing import choose_among

NO_OP = 1e-8  # norm of ΔW below which an adapter changes nothing


def shortlist(world: World, state: State) -> dict[str, list[int]]:
    """The slot worth asking, per family and under "" for all families; none where nobody learned anything.

    For a family: the learner of its niche, a merged one before its parent. For all: the youngest merged child. Where
    there is none, whoever has most skill. One each: to ask costs as much as to learn from what is asked, and the best
    of several on the selection split is the best by luck the oftener, the more there are.
    """
    moved = state.population.delta_norms().numpy(force=True) > NO_OP
    able = [organelle for organelle in state.living if moved[organelle.slot]]
    skill = world.skill(state)

    def first(preferred: list[Organelle], column: np.ndarray) -> list[int]:
        by_skill = sorted(able, key=lambda o: (-skill[o.slot, column].mean(), o.id))
        return [organelle.slot for organelle in [*preferred, *by_skill][:1]]

    listed = {}
    for family, column in zip(world.families, world.inside, strict=True):
        taught = [o for o in able if o.niche == family and o.learned >= 0]
        listed[family] = first(sorted(taught, key=lambda o: (-o.learned, o.origin != "merge", o.id)), column)
    merged = [organelle for organelle in able if organelle.origin == "merge"]
    listed[""] = first(merged[-1:], np.ones(len(world.cells), dtype=bool))
    return listed


def choose(world: World, state: State, selection: list[Item], routings: list[str], folder: Path) -> Meter:
    """Write `routes-ROUTING.json` for each router into `folder`; return the run's meter plus the cost of choosing."""
    meter = Meter.from_state(state.meter.state())
    norms = state.population.delta_norms()
    choose_among(
        world.host,
        state.population,
        selection,
        shortlist(world, state),
        routings,
        folder,
        meter,
        decoding=world.decoding,
        no_op={organelle.slot for organelle in state.living if float(norms[organelle.slot]) <= NO_OP},
    )
    return meter
