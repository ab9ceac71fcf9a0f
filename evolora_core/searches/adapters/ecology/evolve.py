"""The generation loop, its commits, and what a finished run leaves.

A commit has weights and state; the rows of tables go into segments beside it (`commits.py`). A run that dies resumes
from the last whole commit and is the same run, byte for byte but for wall-clock columns.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from evolora_core.engine import artifacts, commits
from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import reached, span
from evolora_core.engine.progress import Progress, silent
from evolora_core.engine.tables import write_table
from evolora_core.errors import Unaffordable
from evolora_core.lora.population.saved import save_population
from evolora_core.searches.adapters.ecology.checkpoint import load_state, save_state
from evolora_core.searches.adapters.ecology.events import Row, write_tables
from evolora_core.searches.adapters.ecology.founding import found
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.ledger import MICRO, SINK, SUN
from evolora_core.searches.adapters.ecology.pace import cooldown_steps, first_generation, longest_answer, phase_over
from evolora_core.searches.adapters.ecology.phases.choosing import choose
from evolora_core.searches.adapters.ecology.phases.contest import contest, last_contest
from evolora_core.searches.adapters.ecology.phases.episodes import act, admit, allocate, settle, trade
from evolora_core.searches.adapters.ecology.phases.inheriting import inherit
from evolora_core.searches.adapters.ecology.phases.merging import assimilate
from evolora_core.searches.adapters.ecology.phases.selection import archive, cull, reproduce
from evolora_core.searches.adapters.ecology.regime import Regime
from evolora_core.searches.adapters.ecology.rules.registry import rule
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.ecology.state import State
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.routing.shots import foretold_flops
from evolora_core.searches.adapters.settings.ecology import EcologySettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its folder, its cost, its number of generations, whether its population died out, and the FLOPs
    of each family's stay, one number where all are there all the time.
    """

    folder: Path
    meter: Meter
    generations: int
    extinct: bool
    stays: list[int]


def begin(task: Task, config: EcologySettings, horizon: Horizon, regime: Regime, folder: Path) -> Run:
    """Found a population, or resume it from the commits in `folder`. What the choice of routes will cost is set aside,
    and the budget for training the sum of the learners after the last generation (`phases/rehearsing.py`).

    Raises Unaffordable if that, and the pricing, leave nothing of the budget for a generation, of each family where
    they come one after another.
    """
    if regime.needs_budget and horizon.budget_flops is None:
        raise ValueError(f"evolve: {regime.word} needs the FLOPs that it may spend")
    task.prices.plan(task.host)
    counts, cap = config.memory.answering, task.decoding.max_new_tokens
    shown = foretold_flops(task.host, task.selection, task.items, counts, cap)
    ranks = regime.candidate_ranks(config, len(task.families))
    # A child of two learners, which answers everything, shows what it remembers as they do.
    specialists = len(ranks) > 1 and not regime.attempts(config)
    reserve = task.prices.routing_reserve(task.flops, len(task.selection), ranks, shown, specialists=specialists)
    horizon = horizon.without(reserve).leaving(regime.rehearsal(config))
    state = found(task, config, regime)
    if committed := commits.latest(folder / "checkpoints"):
        state = load_state(state, committed)
        log.info("resumed at generation %d", state.generation)
    run = Run(task, config, horizon, regime, rule(config.plasticity.rule), state, folder)
    if state.generation == 0:
        _check_paid(run)
    return run


def _check_paid(run: Run) -> None:
    """Raise Unaffordable, before anything is learned, unless the budget pays for a generation, of each family where
    they come one after another: its longest answers say how much dearer it is than the first.
    """
    state, horizon, spent = run.state, run.horizon, run.task.prices.spent
    for phase in range(horizon.phases):
        until = horizon.limit(spent, phase)
        if until is None:
            return
        since = horizon.limit(spent, phase - 1) if phase else state.meter.total()
        dearer = longest_answer(run, phase) / longest_answer(run, 0)
        if until - (since or 0) >= dearer * first_generation(run):
            continue
        families = f" of each family ({horizon.arrivals[phase]} has none)" if horizon.arrivals else ""
        raise Unaffordable(
            f"{run.regime.word}: the budget does not pay for a generation{families}: {horizon.budget_flops:.3g} FLOPs "
            f"remain beside the choice of routes, and {state.meter.total():.3g} were spent before; give the arm a "
            "larger budget, or raise ecology.generations or ecology.episodes"
        )


def advance(run: Run, progress: Progress = silent, *, generations: int | None = None) -> None:
    """Let generations pass until the run is over, or extinct, or has had so many `generations`; then commit."""
    state = run.state
    committed = time.monotonic()
    while not state.extinct and (generations is None or state.generation < generations):
        if phase_over(run):
            if state.phase + 1 >= run.horizon.phases:
                break
            cool(run)
            before = longest_answer(run, state.phase)
            state.arrive()
            state.foresee(longest_answer(run, state.phase) / before)
            inherit(run)
            if run.awake() and phase_over(run):  # generations grew dearer than was foreseen
                family = run.horizon.arrivals[state.phase]
                log.warning(
                    "%s: the budget has no generation left for %s, which stays unlearned", run.regime.word, family
                )
            continue
        generation(run)
        _report(run, progress, generations)
        if time.monotonic() - committed > artifacts.commit_seconds():
            commit(state, run.checkpoints)
            committed = time.monotonic()
    commit(state, run.checkpoints)


def finish(run: Run, routings: Sequence[str]) -> FinishedRun:
    """End a run that is over: the learners cool down, routes are chosen on the selection items, which is part of what
    the run spends, and population and tables are written.
    """
    state = run.state
    cool(run)
    state.close()
    ends = [run.task.prices.spent, *state.departures, state.meter.total()]
    meter = choose(run, routings)
    publish(run, meter)
    stays = [end - begin for begin, end in pairwise(ends)]
    return FinishedRun(run.folder, meter, state.generation, state.extinct, stays)


def generation(run: Run) -> None:
    """One round of the ecology. The state is changed in place: a copy of every weight a step would be waste."""
    state = run.state
    reached("generation", number=state.generation)
    started = time.perf_counter()
    spent = _without_tests(state)
    before = _Before(len(state.organelles), len(state.events.fresh["dead"]), len(state.events.fresh["episodes"]))

    admitted = admit(run)
    groups = allocate(run, admitted)
    answers = act(run, groups)
    found_answers = settle(run, groups, answers)
    trade(run, found_answers)
    contest(run, groups, answers)
    with span("learn"):
        run.rule.learn(run, groups, answers)
    state.drop_broken()
    with span("merge"):
        assimilate(run)
        reproduce(run)
        archive(run)
    cull(run)

    with span("record"):
        state.events.add("generations", [_summary(state, before, time.perf_counter() - started)])
    state.pass_generation(_without_tests(state) - spent)


def _without_tests(state: State) -> int:
    """FLOPs until now without tests of pairs and contests, which take place only if the budget pays for them."""
    return state.meter.total() - state.meter.flops("assimilation") - state.meter.flops("selection")


def cool(run: Run) -> None:
    """Make the last steps of a run, or of a family's stay, in which the learning rate falls to zero. Of contenders, the
    best alone makes them."""
    last_contest(run)
    steps = cooldown_steps(run)
    run.rule.cool(run, (1 - np.arange(1, steps + 1) / (steps + 1)).tolist())
    run.state.drop_broken()
    run.state.settle()


def commit(state: State, checkpoints: Path) -> None:
    """Commit what is alive, and in a segment of its own what happened since the last commit."""

    def save(folder: Path) -> None:
        save_state(state, folder)

    with span("record"):
        folder = commits.commit(checkpoints, state.generation, save, state.events.append)
    if folder:
        state.events.mark(commits.segment_of(checkpoints, state.generation))
        reached("committed", generation=state.generation, folder=folder)


def publish(run: Run, meter: Meter) -> None:
    """Write what later stages read: the living population, and the tables."""
    state = run.state
    norms = state.population.delta_norms().tolist()
    rows: list[Row] = [
        {
            "organelle": o.id,
            "slot": o.slot,
            "rank": o.rank,
            "niche": o.niche,
            "origin": o.origin,
            "born": o.born,
            "died": o.died,
            "cause": o.cause,
            "balance": state.ledger.balance(o.id),
            "delta_norm": norms[o.slot] if o.alive else 0.0,
            "learning_rate": o.learning_rate,
            "temperature": o.temperature,
        }
        for o in state.organelles
    ]
    save_population(run.folder, state.population, [row for row in rows if row["died"] is None])
    write_tables(state.events, rows, run.folder)
    write_table(run.folder, "compute", meter.rows())
    assert np.isfinite(norms).all()


@dataclass(frozen=True)
class _Before:
    """How many organelles there were before a generation, and fresh rows of deaths and episodes."""

    organelles: int
    dead: int
    episodes: int


def _summary(state: State, before: _Before, seconds: float) -> Row:
    """The generation's row; its postings are entered in the table of the ledger."""
    postings = state.settle()
    rewards = sum(row["amount"] for row in postings if row["entry"] == "reward" and row["amount"] > 0)
    spending = {"ticket", "answer", "update", "test"}
    paid = (row["amount"] for row in postings if row["account"] not in (SUN, SINK) and row["entry"] in spending)
    costs = -sum(paid)
    own = state.events.fresh["episodes"][before.episodes :]
    episodes = max(len(own), 1)  # an extinct generation has none; its means are 0
    born = state.organelles[before.organelles :]
    energy = sum(v for name, v in state.ledger.balances.items() if name not in (SUN, SINK))
    return {
        "generation": state.generation,
        "population": len(state.living),
        "episodes": len(own),
        "accuracy": sum(row["correct"] for row in own) / episodes,
        "mean_reward": rewards / MICRO / episodes,
        "mean_cost": costs / MICRO / episodes,
        "mean_net": (rewards - costs) / MICRO / episodes,
        "mean_roi": rewards / costs if costs else 0.0,
        "energy_total": energy / MICRO,
        "births": len(born),
        "deaths": len(state.events.fresh["dead"]) - before.dead,
        "merges": sum(organelle.origin == "merge" for organelle in born),
        "qd_coverage": state.archive.coverage,
        "qd_score": state.archive.qd_score,
        "seconds": seconds,
    }


def _report(run: Run, progress: Progress, generations: int | None) -> None:
    """Say how far a run has come."""
    state, horizon = run.state, run.horizon
    last = state.events.fresh["generations"][-1]
    text = f"{last['population']} alive, {last['accuracy']:.1%} of {last['episodes']} answers right{_unrewarded(run)}"
    if last["merges"]:
        text += f", {last['merges']} merged"
    if horizon.budget_flops is not None:
        progress(min(state.meter.total(), horizon.budget_flops), horizon.budget_flops, text)
    elif total := generations or horizon.generations:
        progress(state.generation, total, text)
    log.info("generation %d: %s", last["generation"], text)


def _unrewarded(run: Run) -> str:
    """The families that are there to which the last generation gave no right answer, or not even an item."""
    episodes = run.state.events.fresh["episodes"]
    own = episodes[len(episodes) - run.state.events.fresh["generations"][-1]["episodes"] :]
    asked, solved = {row["family"] for row in own}, {row["family"] for row in own if row["correct"]}
    there = [family for family in run.task.families if run.horizon.there(family, run.state.phase)]
    parts = {"none of": [f for f in there if f in asked - solved], "no item of": [f for f in there if f not in asked]}
    return "".join(f", {words} {', '.join(families)}" for words, families in parts.items() if families)
