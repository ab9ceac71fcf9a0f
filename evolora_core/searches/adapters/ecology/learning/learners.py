"""Choose the learners, take one step of all of them at once, and charge each for its part."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from evolora_core.engine.probes import reached
from evolora_core.lora.population.train import Batch, train_step
from evolora_core.searches.adapters.ecology.ledger import SINK
from evolora_core.searches.adapters.ecology.merit import appraise
from evolora_core.searches.adapters.ecology.organelle import Organelle, incumbents, latecomers
from evolora_core.searches.adapters.ecology.run import Run

# (run, batch, learning rates [slots]) -> (a number of each slot, finite if its weights are; FLOPs of each row)
Step = Callable[[Run, Batch, Tensor], tuple[Tensor, np.ndarray]]


class Share(NamedTuple):
    """A learner, and its rows in one step."""

    organelle: Organelle
    rows: int


def learners_of(run: Run, able: Collection[int], *, owing: bool = False) -> list[Share]:
    """One organelle of each niche, among the `able` (ids).

    All organelles of a niche explore and sell what they find. Only one learns from it: if all did, each would get a
    fraction of the compute. An organelle stays the learner while it lives, or until a merged child takes its place,
    because skills from practice are too noisy to choose a new learner by. In a generation whose ticket it could not
    pay, or after whose answers it has nothing left, another of its niche learns, unless those that are `owing` learn
    too: in a cooldown, after which nobody pays and the learner answers. The rows are shared out to the niches by
    credit.

    In a contest all contenders learn, in fewer steps (`Run.steps`), each step with the rows of one learner. Others of
    the niche learn for those that cannot pay, and no more of them than contend. Who finds something to learn from later
    than the first joins them then.
    """
    state, regime = run.state, run.regime
    among = [o for o in run.awake() if o.id in able]
    solvent = [o for o in among if owing or (not o.strikes and regime.solvent(state.ledger.balance(o.id)))]
    if not solvent:
        return []
    credit = appraise(run).credit

    def fitness(organelle: Organelle) -> tuple[float, int, int]:
        """Order among organelles that never learned: by credit, then by rank."""
        return credit[organelle.slot], organelle.rank, -organelle.id

    if run.config.contest.contenders > 1:
        seats = {niche: len(own) for niche, own in run.contenders().items()}
        rivals = {niche: own[: seats[niche]] for niche, own in run.contenders(solvent).items()}
        for niche, late in latecomers(state.organelles, run.config.contest.contenders).items():
            if joining := [one for one in late if one in solvent and one not in rivals[niche]]:
                rivals[niche] = [*rivals[niche], *joining]
        chosen = sorted((own for niche in rivals.values() for own in niche), key=lambda organelle: organelle.id)
        level = {niche: np.mean(credit[[o.slot for o in own]]) / len(own) for niche, own in rivals.items()}
        own = np.array([level[organelle.niche] for organelle in chosen])
    else:
        best = {organelle.niche: organelle for organelle in sorted(solvent, key=fitness)} | incumbents(solvent)
        chosen = sorted(best.values(), key=lambda organelle: organelle.id)
        own = credit[[organelle.slot for organelle in chosen]]
    shares = np.maximum(np.rint(run.crowd * regime.rows(run.config.plasticity) * own / own.sum()), 1)
    return [Share(organelle, int(rows)) for organelle, rows in zip(chosen, shares, strict=True)]


def teach(run: Run, shares: Sequence[Share]) -> list[Share]:
    """Record that these learn in this generation; returns them as they then are."""
    return [Share(run.state.teach(organelle), rows) for organelle, rows in shares]


def gradient_step(run: Run, batch: Batch, rates: Tensor) -> tuple[Tensor, np.ndarray]:
    """One step of AdamW."""
    state = run.state
    reached("update", population=state.population, batch=batch)
    done = train_step(
        run.task.host, state.population, batch, state.optimizer, rates, run.config.plasticity.max_grad_norm
    )
    ranks = state.population.ranks_of(batch.slots.numpy(force=True))
    return done, run.task.flops.train_flops(batch.lengths, batch.answer_lengths, ranks)


def train(
    run: Run,
    learners: Sequence[Organelle],
    decay: Sequence[float],
    batches: Iterable[Batch],
    step: Step = gradient_step,
    *,
    crowd: int = 1,
) -> None:
    """Take one step of all learners for each factor of the learning rate in `decay`, each on the next batch, and charge
    their accounts. An organelle whose weights become NaN retires. `crowd`: learners of a niche that the number of steps
    was divided among (`Run.crowd`, before these were taught: who learns in another's place contends from then on).
    """
    started = time.perf_counter()
    state = run.state
    rates = torch.zeros(len(state.practice))
    for organelle in learners:
        rates[organelle.slot] = run.rate(organelle)
    spent, tokens = np.zeros(len(state.practice), dtype=np.int64), 0
    sound = torch.ones(len(state.practice), dtype=torch.bool)
    for factor, batch in zip(decay, batches, strict=False):
        state.count_step(crowd)
        done, flops = step(run, batch, rates * factor)
        sound &= torch.isfinite(done).cpu()
        np.add.at(spent, batch.slots.numpy(force=True), flops)
        tokens += int(batch.lengths.sum())
    for organelle in learners:
        charge_learner(run, organelle, int(spent[organelle.slot]))
        if not sound[organelle.slot]:
            state.retire(state.organelles[organelle.id], "not finite")
    state.meter.add("update", flops=int(spent.sum()), tokens=tokens, seconds=time.perf_counter() - started)


def charge_learner(run: Run, organelle: Organelle, flops: int) -> None:
    """Charge a learner for its updates."""
    run.state.ledger.post(run.state.generation, "update", str(organelle.id), SINK, run.task.energy(flops))
