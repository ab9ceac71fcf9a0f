"""Reproduce, archive, cull: births that organelles pay for, elites with their weights, and the population limit."""

import numpy as np
import torch

from evolora_core.archive import Elite
from evolora_core.ecology.ledger import micro
from evolora_core.ecology.state import Organelle, State, incumbents
from evolora_core.ecology.world import FLOOR, World
from evolora_core.plasticity import Buffer
from evolora_core.population.merge import resize
from evolora_core.population.variation import MUTATIONS, lost_by_halving

# Share of ‖ΔW‖² in the smaller half of the singular values above which a rank counts as used: a quarter of what an even
# spread would give. Learners of rank 2 to 8 on the nano host have 0.08 to 0.26, the less the higher their rank.
WELL_USED = 1 / 8


def reproduce(world: World, state: State) -> None:
    """Make children by mutation. Weights come from elites of the archive, dead or alive. A living organelle of the
    elite's niche pays.

    A child can find answers and sell them. It takes no learner's place (`incumbents`), and the shortlist of the end
    does not ask it, so that in this version mutation reaches no answer outside.
    """
    config, single = world.config.variation, world.mode == "single"
    moved = state.elites.delta_norms()
    there = world.present(state) @ world.inside
    cells = [i for i in sorted(state.archive.elites) if float(moved[i]) > 0 and there[state.archive.cell(i)]]
    if single or not cells:  # a mutation is scaled to what was learned: of nothing learned it is nothing
        return
    price = micro(world.config.economy.endowment)
    host = world.host_accuracy[[state.archive.cell(index) for index in cells]]
    worth = np.maximum([state.archive.elites[index].objective for index in cells] - host, 0.0) + FLOOR
    chances = worth / worth.sum()
    for birth in range(config.births):
        draw = world.stream(state.generation, birth, "mutate")
        index = int(draw.choice(cells, p=chances))
        source = state.organelles[state.archive.elites[index].organelle]
        payers = [o for o in world.awake(state) if o.niche == source.niche and state.ledger.balance(o.id) >= price]
        if not payers or not state.free_slots():
            continue
        payer = source if source in payers else max(payers, key=lambda o: (state.ledger.balance(o.id), -o.id))
        adapter = MUTATIONS[config.directions](state.elites.get(index), config.sigma, draw)
        if draw.random() < config.rank_change:
            used = lost_by_halving(adapter) > WELL_USED if config.rank_change_by == "use" else draw.random() < 0.5
            rank = adapter.rank * 2 if used else adapter.rank // 2
            adapter = resize(adapter, min(max(rank, 1), max(world.config.ranks)), seed=int(draw.integers(2**31)))
        slot = state.free_slots()[0]
        state.population.put(slot, adapter)
        bear(world, state, slot, adapter.rank, "mutation", [(source, 1.0)], draw, payers=[payer])


def bear(
    world: World,
    state: State,
    slot: int,
    rank: int,
    origin: str,
    parents: list[tuple[Organelle, float]],
    draw: np.random.Generator,
    payers: list[Organelle] | None = None,
    endowment: int = 0,
) -> Organelle:
    """Enter the adapter that stands in `slot` as a new organelle: endowed by its payers (the parents), heir of their
    memories.

    `parents` are (organelle, weight in the child's ΔW), the first one the elder; traits are its own, mutated. The
    payers give `endowment` micro-energy in equal parts, the configured one at least.
    """
    elder = parents[0][0]
    spread = world.config.variation.trait_sigma
    child = Organelle(
        id=len(state.organelles),
        slot=slot,
        rank=rank,
        origin=origin,
        born=state.generation,
        niche=elder.niche,
        learning_rate=float(elder.learning_rate * np.exp(spread * draw.standard_normal())),
        temperature=float(elder.temperature * np.exp(spread * draw.standard_normal())),
        parents=tuple(parent.id for parent, _ in parents),
    )
    state.organelles.append(child)
    payers = payers or [parent for parent, _ in parents]
    price = max(endowment, micro(world.config.economy.endowment))
    state.ledger.split(state.generation, "birth", [str(payer.id) for payer in payers], str(child.id), price)
    inherited = Buffer()
    for parent, _ in parents:
        inherited = inherited.merged(state.buffers.get(parent.id, Buffer()), world.config.plasticity.buffer)
    state.buffers[child.id] = inherited
    # A child's skill is not known yet: it starts from half the evidence of its living parents.
    living = [state.practice[parent.slot] for parent, _ in parents if state.organelles[parent.id].alive]
    state.practice[slot] = 0.5 * np.mean(living, axis=0) if living else 0.0
    state.optimizer.reset(slot)
    roles = [("parent", parent, weight) for parent, weight in parents]
    roles += [("sponsor", payer, 0.0) for payer in payers if payer.id not in child.parents]
    state.events["lineage"] += [
        {"child": child.id, "parent": other.id, "role": role, "generation": state.generation, "weight": weight}
        for role, other, weight in roles
    ]
    return child


def archive(world: World, state: State) -> None:
    """Enter every living organelle in the cells that it has practised, with its weights; log the grid."""
    skill = world.skill(state)
    for organelle in state.living:
        for cell in np.flatnonzero(state.practice[organelle.slot, :, 0] >= world.config.samples):
            index = state.archive.index(int(cell), world.flops.dearness(organelle.rank))
            entry = Elite(organelle.id, float(skill[organelle.slot, cell]), state.generation)
            if state.archive.add(index, entry):
                state.elites.put(index, state.population.get(organelle.slot))
    for index, elite in sorted(state.archive.elites.items()):
        family, depth, cost_bin = state.archive.describe(index)
        state.events["archive"].append(
            {
                "generation": state.generation,
                "family": family,
                "depth": depth,
                "cost_bin": cost_bin,
                "organelle": elite.organelle,
                "objective": elite.objective,
            }
        )


def cull(world: World, state: State) -> None:
    """Retire the organelles above the population limit, the poorest first. Elites, learners and those born or taught in
    this generation go last.
    """
    living = state.living
    spared = {elite.organelle for elite in state.archive.elites.values()}
    spared |= {organelle.id for organelle in incumbents(living).values()}
    surplus = len(living) - (1 if world.mode == "single" else world.config.population)
    order = sorted(
        world.awake(state),
        key=lambda o: (o.id in spared or state.generation in (o.born, o.learned), state.ledger.balance(o.id), o.id),
    )
    for organelle in order[: max(surplus, 0)]:
        state.retire(organelle, "culled")


def drop_broken(state: State) -> None:
    """Retire every organelle whose weights are not finite."""
    norms = state.population.delta_norms()
    for organelle in state.living:
        if not torch.isfinite(norms[organelle.slot]):
            state.retire(organelle, "not finite")
