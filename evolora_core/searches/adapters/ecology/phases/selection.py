"""Reproduce, archive, cull: births that organelles pay for, elites with their weights, and the population limit."""

from collections.abc import Mapping

import numpy as np

from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.merge import resize
from evolora_core.lora.population.variation import MUTATIONS, lost_by_halving
from evolora_core.searches.adapters.ecology.ledger import micro
from evolora_core.searches.adapters.ecology.merit import FLOOR, skill_of
from evolora_core.searches.adapters.ecology.organelle import Birth, Traits, incumbents
from evolora_core.searches.adapters.ecology.phases.rewards import incomes
from evolora_core.searches.adapters.ecology.run import Run

# Share of ‖ΔW‖² in the smaller half of the singular values above which a rank counts as used: a quarter of what an even
# spread would give. Learners of rank 2 to 8 on the nano host have 0.08 to 0.26, the less the higher their rank.
WELL_USED = 1 / 8


def reproduce(run: Run) -> None:
    """Make children by mutation. Weights come from elites of the archive, dead or alive. A living organelle of the
    elite's niche pays, if that leaves it its next ticket: without one it would get no items and never earn again.

    A child can find answers and sell them. It takes no learner's place (`incumbents`), and the shortlist of the end
    does not ask it, so that in this version mutation reaches no answer outside.
    """
    births = run.regime.births(run.config)
    cells, chances = _elites(run) if births else ([], np.zeros(0))
    if not cells:
        return
    state, economy = run.state, run.config.economy
    price = micro(economy.endowment)
    for birth in range(births):
        draw = run.stream(birth, "mutate")
        index = int(draw.choice(cells, p=chances))
        source = state.organelles[state.archive.elites[index].organelle]
        niche = [o for o in run.awake() if o.niche == source.niche]
        payers = [o for o in niche if run.regime.ticket(state.ledger.balance(o.id) - price, economy) is not None]
        if not payers or not state.free_slots():
            continue
        payer = source if source in payers else max(payers, key=lambda o: (state.ledger.balance(o.id), -o.id))
        slot = state.seat(_varied(run, state.elites.get(index), draw))
        traits = Traits(source.learning_rate, source.temperature).varied(run.config.variation.trait_sigma, draw)
        child = Birth("mutation", ((source, 1.0),), (payer,), price, traits)
        state.bear(slot, child, run.memories)


def _elites(run: Run) -> tuple[list[int], np.ndarray]:
    """The archive cells, of families that are there, whose elites learned something (a mutation is scaled to what was
    learned: of nothing learned it is nothing), and the probability that a child is made of each.
    """
    state, there = run.state, run.present_cells
    moved = state.elites.delta_norms()
    cells = [i for i in sorted(state.archive.elites) if float(moved[i]) > 0 and there[state.archive.cell(i)]]
    host = run.host_accuracy[[state.archive.cell(index) for index in cells]]
    worth = np.maximum([state.archive.elites[index].objective for index in cells] - host, 0.0) + FLOOR
    return cells, worth / worth.sum()


def _varied(run: Run, adapter: Adapter, draw: np.random.Generator) -> Adapter:
    """A mutation of an adapter, now and then of another rank."""
    config = run.config.variation
    child = MUTATIONS[config.directions](adapter, config.sigma, draw)
    if draw.random() >= config.rank_change:
        return child
    used = lost_by_halving(child) > WELL_USED if config.rank_change_by == "use" else draw.random() < 0.5
    rank = child.rank * 2 if used else child.rank // 2
    return resize(child, min(max(rank, 1), max(run.config.ranks)), seed=int(draw.integers(2**31)))


def archive(run: Run) -> None:
    """Enter every living organelle in the cells that it has practised, with its weights; log the grid. What a child
    inherits of its parents' evidence is no practice of its own.
    """
    state, skill = run.state, skill_of(run)
    for organelle in state.living:
        own = state.practice[organelle.slot][:, [0, 2]].min(axis=1)
        for cell in np.flatnonzero(own >= run.config.samples):
            cost = run.task.flops.dearness(organelle.rank)
            state.elect(int(cell), cost, organelle, float(skill[organelle.slot, cell]))
    for index, elite in sorted(state.archive.elites.items()):
        family, depth, cost_bin = state.archive.describe(index)
        row = {"generation": state.generation, "family": family, "depth": depth, "cost_bin": cost_bin}
        state.events.add("archive", [row | {"organelle": elite.organelle, "objective": elite.objective}])


def cull(run: Run) -> None:
    """Retire the organelles above the population limit, the poorest first, or those who were paid least, or by lot.
    Elites and those born or taught in this generation go last; after these the last one of each niche, then learners;
    then contenders, about which a contest decides. A niche that is empty stays so: without that order the children of a
    rich family would end a poor one.
    """
    state = run.state
    surplus = len(state.living) - run.regime.limit(run.config)
    if surplus <= 0:
        return
    value, awake = _value_of(run), run.awake()
    elites = {elite.organelle for elite in state.archive.elites.values()}
    spared = {o.id: o.id in elites or state.generation in (o.born, o.learned) for o in awake}
    contending = {own.id for niche in run.contenders().values() for own in niche if run.config.contest.contenders > 1}
    by_worth = sorted(awake, key=lambda o: (spared[o.id], value[o.id], -o.id))
    learners = incumbents(awake)
    last = {o.id for o in ({o.niche: o for o in by_worth} | learners).values()}
    taught = {o.id for o in learners.values()}
    order = sorted(
        awake, key=lambda o: (o.id in contending, o.id in last, o.id in taught, spared[o.id], value[o.id], o.id)
    )
    for organelle in order[:surplus]:
        state.retire(organelle, "culled")


def _value_of(run: Run) -> Mapping[int, float]:
    """Value of each organelle by id; the lowest is culled first."""
    if run.config.economy.cull == "least":
        return incomes(run)
    if run.config.economy.cull == "lots":
        draw = run.stream(0, "cull")
        return {organelle.id: float(draw.random()) for organelle in run.awake()}
    return {organelle.id: run.state.ledger.balance(organelle.id) for organelle in run.awake()}
