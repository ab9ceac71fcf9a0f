"""The generation loop, its commits, and what a finished run leaves.

A commit is a folder `checkpoints/gNNNNNN` written beside its final name and moved into place, weights, state and
events together, with their hashes; the last two are kept. A run that dies resumes from the last whole one and is the
same run, byte for byte but for wall-clock columns.
"""

import json
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.torch import load_file, save_file

from evolora_core import artifacts
from evolora_core.ecology.calibration import Calibration
from evolora_core.ecology.choosing import choose
from evolora_core.ecology.events import write_events
from evolora_core.ecology.learning import arrive, cool, learn, phase_over
from evolora_core.ecology.ledger import MICRO, SINK, SUN
from evolora_core.ecology.merging import assimilate
from evolora_core.ecology.rollout import act, admit, allocate, settle, trade
from evolora_core.ecology.selection import archive, cull, drop_broken, reproduce
from evolora_core.ecology.state import State, load_state, save_state
from evolora_core.ecology.world import World, found
from evolora_core.errors import StageError
from evolora_core.families.base import Item
from evolora_core.flops import FlopModel
from evolora_core.hosts.host import Host
from evolora_core.language.decoding import DecodingConfig
from evolora_core.meter import Meter
from evolora_core.population.merge import summed_rank
from evolora_core.population.stack import Population
from evolora_core.probes import reached, span
from evolora_core.progress import Progress
from evolora_core.searches.adapters.settings.ecology import EcologyConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evolved:
    """A finished run: its folder, its cost, its number of generations, and whether its population died out."""

    folder: Path
    meter: Meter
    generations: int
    extinct: bool


def generation(world: World, state: State) -> None:
    """One round of the ecology. The state is changed in place: a copy of every weight a step would be waste."""
    reached("generation", number=state.generation)
    started = time.perf_counter()
    before, spent = len(state.organelles), state.meter.total() - state.meter.flops("assimilation")
    deaths_before = sum(not organelle.alive for organelle in state.organelles)

    admitted = admit(world, state)
    groups = allocate(world, state, admitted)
    outcomes = act(world, state, groups)
    found_answers = settle(world, state, groups, outcomes)
    trade(world, state, found_answers)
    with span("learn"):
        learn(world, state, groups, outcomes)
    drop_broken(state)
    with span("merge"):
        assimilate(world, state)
        reproduce(world, state)
        archive(world, state)
    cull(world, state)

    with span("record"):
        _summarise(world, state, before, deaths_before, time.perf_counter() - started)
    state.last_flops = state.meter.total() - state.meter.flops("assimilation") - spent
    state.extinct = not state.living
    state.generation += 1


@dataclass(frozen=True)
class Run:
    """An evolution under way: its world, its state, and the folder with its commits."""

    world: World
    state: State
    folder: Path

    @property
    def checkpoints(self) -> Path:
        """The commits."""
        return self.folder / "checkpoints"


def begin(
    host: Host,
    items: list[Item],
    selection: list[Item],
    config: EcologyConfig,
    decoding: DecodingConfig,
    seed: int,
    calibration: Calibration,
    folder: Path,
    *,
    mode: str = "ecology",
    budget_flops: int | None = None,
    arrivals: Sequence[str] = (),
) -> Run:
    """Found an ecology, or a `single` organelle, on the training items, or resume it from the commits in `folder`.

    It is to run `config.generations`, or, given `budget_flops`, until another generation would overspend them. With
    `arrivals`, families come and go in that order, each for an equal share of the generations or of the budget. Raises
    StageError if prices and the choice of routes leave nothing for a generation.
    """
    if mode == "single" and budget_flops is None:
        raise ValueError("evolve: single needs the FLOPs that it may spend")
    calibration.plan(host)
    if budget_flops is not None:
        top = max(config.ranks)
        # One for an item's family, and a sum for all families.
        ranks = [top] if mode == "single" else [top, summed_rank(top)]
        budget_flops -= calibration.routing_reserve(FlopModel.from_model(host.model), len(selection), ranks)
    world = World(host, items, config, decoding, seed, calibration, mode, budget_flops, tuple(arrivals))
    state = found(world)
    if latest := _latest(folder / "checkpoints"):
        state = load_state(state, latest)
        log.info("resumed at generation %d", state.generation)
    if state.generation == 0 and phase_over(world, state):
        raise StageError(
            f"{mode}: the budget does not pay for a generation{' of each family' if arrivals else ''}: "
            f"{budget_flops:.3g} FLOPs remain beside the choice of routes, and calibration took "
            f"{state.meter.total():.3g}; give the arm a larger budget, or raise ecology.generations or ecology.episodes"
        )
    return Run(world, state, folder)


def advance(run: Run, progress: Progress | None = None, *, generations: int | None = None) -> None:
    """Let generations pass until the run is over, or extinct, or has had so many `generations`; then commit."""
    world, state = run.world, run.state
    committed = time.monotonic()
    while not state.extinct and (generations is None or state.generation < generations):
        if phase_over(world, state):
            if state.phase + 1 >= len(world.arrivals):
                break
            cool(world, state)
            arrive(world, state)
            continue
        generation(world, state)
        spent, budget = state.meter.total(), world.budget_flops
        last = state.events["generations"][-1]
        done = state.generation if budget is None else min(spent, budget)
        planned = generations or (world.config.generations if budget is None else budget)
        text = f"{last['population']} alive, {last['accuracy']:.1%} right, {last['merges']} merged"
        if progress:
            progress(done, planned, text)
        log.info("generation %d: %s", last["generation"], text)
        if time.monotonic() - committed > artifacts.commit_seconds():
            commit(state, run.checkpoints)
            committed = time.monotonic()
    commit(state, run.checkpoints)


def finish(run: Run, selection: list[Item], routings: list[str]) -> Evolved:
    """End a run that is over: the learners cool down, routes are chosen on the selection items, which is part of what
    the run spends, and population and tables are written.
    """
    world, state = run.world, run.state
    cool(world, state)
    state.extinct = not state.living  # the steps of a cooldown may leave nobody's weights finite
    meter = choose(world, state, selection, routings, run.folder)
    _publish(world, state, meter, run.folder)
    return Evolved(run.folder, meter, state.generation, state.extinct)


def evolve(
    host: Host,
    items: list[Item],
    selection: list[Item],
    config: EcologyConfig,
    decoding: DecodingConfig,
    seed: int,
    calibration: Calibration,
    folder: Path,
    *,
    routings: list[str],
    mode: str = "ecology",
    budget_flops: int | None = None,
    arrivals: Sequence[str] = (),
    progress: Progress | None = None,
) -> Evolved:
    """Run (or resume, from the commits in `folder`) an evolution from its beginning to its end; see `begin`."""
    run = begin(
        host,
        items,
        selection,
        config,
        decoding,
        seed,
        calibration,
        folder,
        mode=mode,
        budget_flops=budget_flops,
        arrivals=arrivals,
    )
    advance(run, progress)
    return finish(run, selection, routings)


def load_evolved(host: Host, folder: Path) -> tuple[Population, list[dict[str, Any]]]:
    """The living population of a finished run and its organelles (rows with organelle, slot, rank, origin, …)."""
    path = folder / "population.json"
    if not path.exists():
        raise StageError(f"{path}: missing; this folder holds no finished run, finish it with `evolora retry`")
    document = json.loads(path.read_text(encoding="utf-8"))
    population = Population.empty(host, document["slots"], document["max_rank"], scale=document["scale"])
    population.load_state_dict(load_file(folder / "population.safetensors"))
    return population, document["organelles"]


def _summarise(world: World, state: State, before: int, deaths_before: int, seconds: float) -> None:
    """Append the generation's row and its postings to the events."""
    postings = state.ledger.drain()
    rewards = sum(row["amount"] for row in postings if row["entry"] == "reward" and row["amount"] > 0)
    spending = {"ticket", "answer", "update", "test"}
    costs = sum(row["amount"] for row in postings if row["account"] == SINK and row["entry"] in spending)
    own = [
        row
        for row in reversed(state.events["episodes"][-world.config.episodes - 1 :])
        if row["generation"] == state.generation
    ]
    episodes = max(len(own), 1)  # an extinct generation has none; its means are 0
    born = state.organelles[before:]
    energy = sum(v for name, v in state.ledger.balances.items() if name not in (SUN, SINK))
    state.events["ledger"] += postings
    state.events["generations"].append(
        {
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
            "deaths": sum(not organelle.alive for organelle in state.organelles) - deaths_before,
            "merges": sum(organelle.origin == "merge" for organelle in born),
            "qd_coverage": state.archive.coverage,
            "qd_score": state.archive.qd_score,
            "seconds": seconds,
        }
    )


def _commits(checkpoints: Path) -> list[Path]:
    """All commits, oldest first."""
    return sorted(folder for folder in checkpoints.glob("g*") if folder.suffix != ".partial")


def _latest(checkpoints: Path) -> Path | None:
    """The last commit that is whole; damaged ones are removed."""
    for folder in reversed(_commits(checkpoints)):
        reason = artifacts.damage(folder)
        if reason is None:
            return folder
        log.warning("checkpoint %s: %s; going on from before it", folder.name, reason)
        shutil.rmtree(folder)
    return None


def commit(state: State, checkpoints: Path) -> None:
    """Write a checkpoint beside its name, move it into place, and keep the last two."""
    target = checkpoints / f"g{state.generation:06d}"
    if target.exists():
        return
    with span("record"):
        save_state(state, artifacts.partial_folder(target))
        artifacts.commit(target, {"generation": state.generation})
    reached("committed", generation=state.generation, folder=target)
    for old in _commits(checkpoints)[:-2]:
        shutil.rmtree(old)


def _publish(world: World, state: State, meter: Meter, folder: Path) -> None:
    """Write what later stages read: the living population, and the tables."""
    population = state.population
    save_file({k: v.contiguous() for k, v in population.state_dict().items()}, folder / "population.safetensors")
    norms = population.delta_norms().tolist()
    rows = [
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
    living = [row for row in rows if row["died"] is None]
    document = {
        "slots": population.capacity,
        "max_rank": population.max_rank,
        "scale": world.config.scale,
        "organelles": living,
    }
    (folder / "population.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    write_events(state.events | {"organelles": rows}, folder)
    table = pa.Table.from_pylist(meter.rows())
    pq.write_table(table, folder / "compute.parquet")
    assert np.isfinite(norms).all()
