"""Learn: the learners rehearse their memories, learn from their answers of the generation, or let perturbed copies
answer. Each step is one pass for all of them.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from evolora_core.ecology.perturbation import perturb
from evolora_core.ecology.practice import practise
from evolora_core.ecology.rollout import Group
from evolora_core.ecology.selection import drop_broken
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.training import learners_of, train
from evolora_core.ecology.world import World
from evolora_core.evaluation.outcome import Outcome
from evolora_core.meter import Meter
from evolora_core.plasticity import Buffer, Memory
from evolora_core.population.train import Batch, build_batch

LONGER = 1.1  # rows of a cooldown may be longer than those before it


def learn(world: World, state: State, groups: list[Group], answers: list[list[Outcome]]) -> None:
    """Take the generation's learning steps of every learner, over its buffer, its own answers or those of perturbed
    copies, as the rule says. Charge their accounts. An organelle whose weights become NaN retires.
    """
    steps = _steps(world, 1)
    if world.rule.on_policy:
        practise(world, state, groups, answers, steps)
    elif world.rule.perturbs:
        perturb(world, state, groups, steps)
    else:
        _rehearse(world, state, np.ones(steps), "rehearse")


def cool(world: World, state: State) -> None:
    """Make the last steps of a run, or of a family's stay, in which the learning rate falls to zero. Their number is a
    share of the steps made until now, or what is left of a budget.

    A schedule planned to the end would need to know it. Constant first and then a short decay to zero gets nearly as
    far (Hägele et al. 2024, arXiv 2405.18392), and a run can be extended from before the decay.
    """
    steps = _steps(world, (state.generation - state.phase_start) * world.cooldown)
    if world.budget_flops is not None and steps and state.steps:
        price = (state.meter.flops("update") - state.phase_updates) / state.steps
        steps = max(0, int((_limit(world, state) - state.meter.total()) / LONGER / price))
    _rehearse(world, state, 1 - np.arange(1, steps + 1) / (steps + 1), "cool")
    drop_broken(state)
    state.events["ledger"] += state.ledger.drain()


def affords(world: World, state: State, more: float) -> bool:
    """Whether `more` FLOPs and the cooldown after them are within the budget, if there is one."""
    if world.budget_flops is None:
        return True
    updates = state.meter.flops("update") - state.phase_updates
    cooling = LONGER * world.cooldown * (updates + more)
    ahead = more if world.cooldown else LONGER * more  # a cooldown gives way where a generation took more than planned
    return state.meter.total() + ahead + cooling <= _limit(world, state)


def phase_over(world: World, state: State) -> bool:
    """Whether the present family has had its share of the run, or no organelle of its niche is left. Where all families
    are there all the time, whether the run is over.

    On a budget the share is one of FLOPs, else one of generations: arms of equal FLOPs need not have equal generations
    of a family.
    """
    if not world.awake(state):
        return True
    if world.budget_flops is not None and state.last_flops == 0:
        return state.meter.total() + _first(world) > _limit(world, state)
    if world.budget_flops is not None:
        return not affords(world, state, state.last_flops)
    return state.generation * max(len(world.arrivals), 1) >= world.config.generations * (state.phase + 1)


def arrive(world: World, state: State) -> None:
    """Bring the next family, and drop all memories of the one before: nothing is replayed."""
    state.phase += 1
    state.phase_start, state.phase_updates, state.steps = state.generation, state.meter.flops("update"), 0
    state.buffers = {number: Buffer() for number in state.buffers}


def _first(world: World) -> float:
    """FLOPs of a generation, before there was one: its answers cost what the bare host's do, a row of an update twice
    as much, since a backward pass without gradients of the host's weights takes what a forward pass does; of mirrored
    pairs of copies each answers every row.
    """
    config = world.config.plasticity
    row = 2 * config.pairs if world.rule.perturbs else 2
    return world.calibration.unit_flops * (world.config.episodes + row * config.steps * config.batch_rows)


def _limit(world: World, state: State) -> float:
    """FLOPs that may be spent until the end of the present family's stay."""
    assert world.budget_flops is not None
    before = Meter.from_state(world.calibration.meter).total()
    return before + (world.budget_flops - before) * (state.phase + 1) / max(len(world.arrivals), 1)


def batch_of(world: World, flat: Sequence[tuple[Organelle, Memory]]) -> Batch:
    """A training batch of memories, each for its organelle."""
    prompts = [world.prompts[memory.item] for _, memory in flat]
    answers = [[*memory.tokens, world.host.template.end] for _, memory in flat]
    slots = np.array([organelle.slot for organelle, _ in flat])
    return build_batch(world.host, prompts, answers, slots, np.ones(len(flat)))


def _steps(world: World, generations: float) -> int:
    """Learning steps of a learner in this many generations. Both modes learn equally many rows."""
    config = world.config.plasticity
    scale = config.batch_rows / config.single_batch_rows if world.mode == "single" else 1
    return max(1, round(config.steps * generations * scale)) if config.steps and generations else 0


def _rehearse(world: World, state: State, decay: np.ndarray, role: str) -> None:
    """One step of the learners for each factor of their learning rates in `decay`, over what they remember."""
    able = {organelle.id for organelle in state.living if state.buffers[organelle.id]}
    rows = {organelle.id: share for organelle, share in learners_of(world, state, able)} if len(decay) else {}
    if not rows:
        return
    learners = [state.teach(state.organelles[number]) for number in rows]
    draws = {organelle.id: world.stream(state.generation, organelle.id, role) for organelle in learners}
    worth = world.interest(state)[world.cell_of]

    def batches() -> Iterator[Batch]:
        while True:
            flat = [
                (organelle, memory)
                for organelle in learners
                for memory in state.buffers[organelle.id].draw(rows[organelle.id], draws[organelle.id], worth)
            ]
            yield batch_of(world, flat)

    train(world, state, learners, decay, batches())
