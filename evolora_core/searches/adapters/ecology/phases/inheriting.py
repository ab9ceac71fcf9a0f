"""Where families come one after another, the founders of a new family may begin with what earlier ones have learned."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolora_core.lora.answering.grading import charge
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.merge import merge
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.ecology.learning.asking import ask
from evolora_core.searches.adapters.ecology.ledger import SINK, SUN
from evolora_core.searches.adapters.ecology.organelle import Organelle, incumbents
from evolora_core.searches.adapters.ecology.run import Run


@dataclass(frozen=True)
class Donor:
    """Weights that founders may begin with, and whose they are: (organelle, weight in the sum)."""

    name: str
    adapter: Adapter
    parents: tuple[tuple[Organelle, float], ...]


def inherit(run: Run) -> None:
    """Give the founders of the family that has just arrived their donor's weights. What they remember, and their
    traits, stay their own. The sun, which endows founders, pays for the answers by which a donor is chosen.
    """
    config, niche = run.config.inheritance, run.horizon.arrivals[run.state.phase]
    heirs = [own for own in run.awake() if own.niche == niche and not own.lessons]
    donors = _donors(run) if heirs and config.donor != "host" else []
    if not donors:
        return
    draw = run.stream(run.state.phase, "inherit")
    if config.donor == "random":
        chosen: Donor | None = donors[int(draw.integers(len(donors)))]
        right = np.zeros((1 + len(donors), 0), dtype=bool)
    else:
        items = draw.permutation(np.flatnonzero(run.present_cells[run.task.cell_of]))[: config.items]
        right = _answers(run, donors, items)
        best = int(np.argmax(right.sum(axis=1)))  # of equals the first: the host, then the eldest learner
        chosen = donors[best - 1] if best else None
    _log(run, niche, donors, right, chosen)
    if chosen:
        for heir in heirs:
            run.state.adopt(heir, chosen.adapter, chosen.parents, seed=int(draw.integers(2**31)))
    run.state.settle()  # a family whose share pays for no generation ends with a commit


def _donors(run: Run) -> list[Donor]:
    """The learner of each family that came before, and the sum of them where there are several."""
    state, moved = run.state, run.state.moved()
    awake = {own.id for own in run.awake()}
    able = [own for own in state.living if own.niche and own.id not in awake and moved[own.slot]]
    learners = sorted(incumbents(able).values(), key=lambda own: own.id)
    donors = [Donor(str(own.id), state.population.get(own.slot), ((own, 1.0),)) for own in learners]
    if len(learners) > 1 and (weight := run.config.assimilation.sum_weight):
        together = merge([own.adapter for own in donors], [weight] * len(donors), max(run.config.ranks))
        donors.append(Donor("sum", together, tuple((own, weight) for own in learners)))
    return donors


def _answers(run: Run, donors: Sequence[Donor], items: np.ndarray) -> np.ndarray:
    """Which greedy answers of the host and of each donor are right: bool `[1 + donors, items]`. Charged."""
    started = time.perf_counter()
    asked = Population.empty(run.task.host, 1 + len(donors), max(run.config.ranks), scale=run.config.scale)
    for slot, donor in enumerate(donors, 1):
        asked.put(slot, donor.adapter)
    outcomes = ask(run, asked, np.tile(items, 1 + len(donors)), np.repeat(np.arange(1 + len(donors)), len(items)))
    charge(run.state.meter, "selection", outcomes, time.perf_counter() - started)
    cost = run.task.energy(sum(outcome.flops for outcome in outcomes))
    run.state.ledger.post(run.state.generation, "test", SUN, SINK, cost)
    return np.array([outcome.grade.correct for outcome in outcomes], dtype=bool).reshape(1 + len(donors), -1)


def _log(run: Run, niche: str, donors: Sequence[Donor], right: np.ndarray, chosen: Donor | None) -> None:
    names = ["host", *(donor.name for donor in donors)]
    run.state.events.add(
        "inheritance",
        [
            {
                "generation": run.state.generation,
                "niche": niche,
                "donor": name,
                "items": right.shape[1],
                "correct": int(own.sum()),
                "chosen": name == (chosen.name if chosen else "host"),
            }
            for name, own in zip(names, right, strict=True)
        ],
    )
