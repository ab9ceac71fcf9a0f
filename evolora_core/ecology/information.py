"""Fisher information of the parents of a merge, on the answers that they remember. The parents are charged for it."""

import time

from evolora_core.ecology.learning import batch_of
from evolora_core.ecology.ledger import SINK
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.world import World
from evolora_core.population.fisher import Fisher, fishers_of


def fishers(world: World, state: State, parents: list[Organelle]) -> list[Fisher]:
    """The Fisher of each parent, on verified answers drawn from its own memories; one forward and backward for all.

    ValueError: a parent remembers nothing.
    """
    started = time.perf_counter()
    flat = []
    for parent in parents:
        draw = world.stream(state.generation, parent.id, "fisher")
        memories = state.buffers[parent.id].sample(world.config.assimilation.fisher_rows, draw)
        if not memories:
            raise ValueError(f"organelle {parent.id} remembers no answer that could say what it knows")
        flat += [(parent, memory) for memory in memories]
    batch = batch_of(world, flat)
    slots = batch.slots.numpy(force=True)
    ranks = state.population.ranks.numpy(force=True)[slots]
    flops = world.flops.train_flops(batch.lengths, batch.answer_lengths, ranks)
    found = dict(
        zip(sorted({parent.slot for parent in parents}), fishers_of(world.host, state.population, batch), strict=True)
    )
    state.meter.add("assimilation", int(flops.sum()), int(batch.lengths.sum()), time.perf_counter() - started)
    for parent in parents:
        own = int(flops[slots == parent.slot].sum())
        state.ledger.post(state.generation, "test", str(parent.id), SINK, world.energy(own))
    return [found[parent.slot] for parent in parents]


def fisher_flops(world: World) -> int:
    """FLOPs of one parent's Fisher at most: every row as long as item and answer can be. 0 if none is asked for."""
    config = world.config.assimilation
    if "fisher" not in config.methods:
        return 0
    answer = max(world.decoding.max_new_tokens, max(map(len, world.gold_tokens))) + 1
    row = world.flops.train_flops(max(map(len, world.prompts)) + answer, answer, max(world.config.ranks))
    return config.fisher_rows * int(row)
