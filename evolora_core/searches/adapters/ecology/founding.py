"""Generation 0: founders, each with a rank and a niche, endowed by the sun."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from evolora_core.engine import rng
from evolora_core.engine.archive import Archive
from evolora_core.engine.meter import Meter
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import StackedAdamW
from evolora_core.searches.adapters.ecology.ledger import SUN, Ledger, micro
from evolora_core.searches.adapters.ecology.memories import Buffer, Memory
from evolora_core.searches.adapters.ecology.organelle import Organelle, Traits
from evolora_core.searches.adapters.ecology.regime import Regime
from evolora_core.searches.adapters.ecology.rules.registry import rule
from evolora_core.searches.adapters.ecology.state import State
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.labels import Given, labelled
from evolora_core.searches.adapters.settings.ecology import EcologySettings


def found(task: Task, config: EcologySettings, regime: Regime) -> State:
    """The state before the first generation."""
    seats = regime.seats(config, task.families)
    slots, top = regime.slots(config), max(config.ranks)
    population = Population.empty(task.host, slots, top, scale=config.scale)
    ledger = Ledger()
    organelles = []
    usual = Traits(1.0, config.temperature)
    for i, seat in enumerate(seats):
        draw = rng.stream(task.seed, 0, i, "founder", regime.word)
        scattered = usual.varied(seat.spread, draw)  # drawn beside a prior too: the weights come from the same stream
        traits = drawn(task.seed, i, config) or scattered
        organelles.append(
            Organelle(i, i, seat.rank, "founder", 0, seat.niche, traits.learning_rate, traits.temperature)
        )
        population.init_slot(i, seat.rank, draw)
        ledger.post(0, "endowment", SUN, str(i), micro(config.economy.endowment))
    archive = Archive(task.cells, cost_edges(task, config))
    prior, meter = task.host_accuracy(config.verifier_error), Meter.from_state(task.prices.meter)
    state = State(
        generation=0,
        organelles=organelles,
        population=population,
        optimizer=StackedAdamW(population, config.plasticity.betas, config.plasticity.weight_decay),
        # Children are made of elites' weights; without births nobody asks for them.
        elites=Population.empty(task.host, archive.size if regime.births(config) else 0, top, scale=config.scale),
        archive=archive,
        ledger=ledger,
        buffers={organelle.id: Buffer() for organelle in organelles},
        practice=np.zeros((slots, len(task.cells), 3)),
        curriculum=np.stack([prior, prior], axis=1),
        baselines=task.inside @ prior / task.inside.sum(axis=1),
        meter=meter,
        phase_updates=meter.flops("update"),
    )
    remember_labels(task, config, state, state.organelles, regime.memories(config.plasticity, len(task.families)))
    state.settle()
    return state


def remember_labels(
    task: Task, config: EcologySettings, state: State, organelles: Sequence[Organelle], limit: int
) -> None:
    """Let organelles that have learned nothing begin with the gold answers of their niche, where the suite gives some,
    the last `limit` of them. Those that are longer than the host's context are left out, as fine-tuning leaves them
    out.
    """
    if not config.memory.labels:
        return
    numbers = {item.task_id: number for number, item in enumerate(task.items)}
    for item in labelled(task.items, Given(config.memory.labels), task.seed):
        memory = Memory(numbers[item.task_id], task.gold_tokens[numbers[item.task_id]], 1.0)
        for organelle in organelles:
            if organelle.niche in ("", item.family) and task.fits(memory.item, memory.tokens):
                state.remember(organelle, memory, limit)


def drawn(seed: int, founder: int, config: EcologySettings) -> Traits | None:
    """The traits of a founder that draws them from the prior, if there is one: the same in every regime."""
    rate = config.prior.rate(seed, founder)
    usual = rule(config.plasticity.rule).rate(config.plasticity)
    return None if rate is None else Traits(rate / usual, config.temperature)


def cost_edges(task: Task, config: EcologySettings) -> list[float]:
    """Where the bins of cost meet, one for each rank: what an answer costs is decided by the rank."""
    ranks = sorted(set(config.ranks))
    return [(task.flops.dearness(lower) + task.flops.dearness(upper)) / 2 for lower, upper in pairwise(ranks)]
