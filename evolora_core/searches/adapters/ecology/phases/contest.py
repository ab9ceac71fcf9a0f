"""The contest: the contenders of a niche answer the same items, and the better go on.

Population-based training (Jaderberg et al. 2017, arXiv 1711.09846) where losers copy the winner, successive halving
(Jamieson and Talwalkar 2016, arXiv 1502.07943) where they retire. What decides is paired: the same items for all, with
the weights of the moment. Greedy practice of the same generation counts, since contenders practise the same items.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolora_core.lora.answering.grading import charge
from evolora_core.searches.adapters.ecology.founding import remember_labels
from evolora_core.searches.adapters.ecology.learning.asking import ask
from evolora_core.searches.adapters.ecology.ledger import SINK
from evolora_core.searches.adapters.ecology.organelle import Birth, Group, Organelle, Traits
from evolora_core.searches.adapters.ecology.pace import affords, contest_flops, learning_flops
from evolora_core.searches.adapters.ecology.phases.paired_test import superiority_p
from evolora_core.searches.adapters.ecology.run import Answers, Run


@dataclass(frozen=True)
class Standing:
    """A contender's outcome: right answers to the common items, and the p value of the best contender being better."""

    organelle: Organelle
    right: np.ndarray  # bool [items]
    p: float


def contest(run: Run, groups: Sequence[Group], answers: Answers) -> None:
    """The contests of a generation, if they are due and the budget pays for them and for the learning that follows.

    A niche where nobody has learned holds none: its contenders are all the host, and a lot would decide.
    """
    config, past = run.config.contest, run.state.generation + 1
    over = config.ends is not None and past >= config.ends
    due = over or past % config.every == 0
    if config.contenders == 1 or not due or not affords(run, contest_flops(run) + learning_flops(run)):
        return
    practised: dict[int, dict[int, bool]] = {}
    for group, own in zip(groups, answers, strict=True) if run.rule.greedy else ():
        evidence = run.rule.evidence([outcome.grade.correct for outcome in own])
        practised.setdefault(group.organelle.id, {})[group.item] = bool(evidence[0])
    for niche, contenders in run.contenders().items():
        if len(contenders) < 2 or not contenders[0].lessons:
            continue
        standings = compete(run, niche, contenders, practised)
        losers = standings[1:] if over else losers_of(run, standings)
        fate = "retires" if over else config.loser
        # A contender's learning steps cost more than a founder's endowment: with that alone, copies went bankrupt.
        endowment = max(run.state.ledger.balance(standings[0].organelle.id) // (len(losers) + 1), 0)
        _log(run, niche, standings, losers, fate)
        for loser in losers:
            if fate == "retires":
                run.state.retire(loser.organelle, "beaten")
            else:
                succeed(run, standings[0].organelle, loser.organelle, endowment)


def last_contest(run: Run) -> None:
    """Where a suite has contests, leave one of each niche, which cools down and answers: of all that have learned, also
    in another's place. Where nobody has, all are as they began, and nothing is asked. Charged like the others; what it
    costs was set aside.
    """
    if run.config.contest.contenders == 1:
        return
    for niche, rivals in run.contenders(most=len(run.state.organelles)).items():
        losers = rivals[1:]
        if losers and rivals[0].lessons:
            standings = compete(run, niche, rivals, {})
            losers = [own.organelle for own in standings[1:]]
            _log(run, niche, standings, standings[1:], "retires")
        for loser in losers:
            run.state.retire(loser, "beaten")


def compete(
    run: Run, niche: str, contenders: Sequence[Organelle], practised: dict[int, dict[int, bool]]
) -> list[Standing]:
    """The contenders by their right answers to common items, the best first; of equals the one that comes first by id.

    `practised` has what some answered in this generation: organelle -> item -> right. Items of the niche that all of
    them practised count; the others are drawn, and asked for, among those that none of them remembers: what one
    rehearses says how well it remembers. Where these are used up, items that all of them remember fill up the contest,
    which are as fair; where there is no item at all, a lot decides.
    """
    draw = run.stream(run.task.families.index(niche) if niche else 0, "contest")
    whole = _pool(run, niche)
    common = sorted({*whole.tolist()}.intersection(*(practised.get(own.id, {}) for own in contenders)))
    known = [{memory.item for memory in run.state.buffers[own.id].memories.values()} for own in contenders]
    pool = np.setdiff1d(whole, common)
    unknown = pool[~np.isin(pool, [*set.union(*known)])]
    wanted = max(run.config.contest.items - len(common), 0)
    fresh = draw.permutation(unknown)[:wanted]
    if len(fresh) < wanted:
        shared = pool[np.isin(pool, [*set.intersection(*known)])]
        fresh = np.concatenate([fresh, draw.permutation(shared)[: wanted - len(fresh)]])
    right = np.concatenate(
        [
            np.array([[practised[own.id][item] for item in common] for own in contenders], dtype=bool),
            _asked(run, contenders, fresh),
        ],
        axis=1,
    )
    order = draw.permutation(len(contenders))
    if run.config.contest.judge == "evidence" and right.size:
        order = np.argsort(-right.sum(axis=1), kind="stable")
    best = right[order[0]]
    return [Standing(contenders[i], right[i], superiority_p(best, right[i])) for i in order]


def losers_of(run: Run, standings: Sequence[Standing]) -> list[Standing]:
    """Who does not go on: the worse half, or those whom the best beats by the test. By chance, as many as the test
    would name.
    """
    config = run.config.contest
    if config.loser == "retires":
        return list(standings[(len(standings) + 1) // 2 :])
    if config.judge == "evidence":
        return [own for own in standings[1:] if own.p <= config.alpha]
    best = max((own.right for own in standings), key=np.sum)
    beaten = sum(superiority_p(best, own.right) <= config.alpha for own in standings)
    return list(standings[len(standings) - beaten :])


def succeed(run: Run, winner: Organelle, loser: Organelle, endowment: int) -> Organelle:
    """Let a successor of the winner take the loser's place, in a free slot, with the winner's weights, memories and
    optimizer state; where losers restart, with its traits alone. The winner pays the endowment.
    """
    state, config = run.state, run.config.contest
    draw = run.stream(loser.id, "succeed")
    traits = Traits(winner.learning_rate, winner.temperature).varied(config.spread, draw)
    state.retire(loser, "beaten")
    slot = state.seat(state.population.get(winner.slot))
    copies = config.loser == "copies"
    birth = Birth("copy", ((winner, float(copies)),), (winner,), endowment, traits)
    child = state.bear(slot, birth, run.memories)
    if copies:
        return state.inherit_place(child, winner)
    state.population.init_slot(slot, winner.rank, draw)
    child = state.forget(state.succeed(child, [winner]))  # it contends again, though it has learned nothing yet
    remember_labels(run.task, run.config, state, [child], run.memories)
    return child


def _asked(run: Run, contenders: Sequence[Organelle], items: np.ndarray) -> np.ndarray:
    """Greedy answers of all contenders to the same items, bool `[contenders, items]`; each is charged for its own."""
    if not len(items):
        return np.zeros((len(contenders), 0), dtype=bool)
    started = time.perf_counter()
    slots = np.repeat([own.slot for own in contenders], len(items))
    outcomes = ask(run, run.state.population, np.tile(items, len(contenders)), slots)
    charge(run.state.meter, "selection", outcomes, time.perf_counter() - started)
    for number, own in enumerate(contenders):
        answered = outcomes[number * len(items) : (number + 1) * len(items)]
        cost = run.task.energy(sum(outcome.flops for outcome in answered))
        run.state.ledger.post(run.state.generation, "test", str(own.id), SINK, cost)
    return np.array([outcome.grade.correct for outcome in outcomes], dtype=bool).reshape(len(contenders), -1)


def _pool(run: Run, niche: str) -> np.ndarray:
    """Numbers of the items that a niche is about and whose family is there."""
    there = run.present_cells & np.array([not niche or family == niche for family, _ in run.task.cells])
    return np.flatnonzero(there[run.task.cell_of])


def _log(run: Run, niche: str, standings: Sequence[Standing], losers: Sequence[Standing], fate: str) -> None:
    beaten = {own.organelle.id for own in losers}
    run.state.events.add(
        "contests",
        [
            {
                "generation": run.state.generation,
                "niche": niche,
                "organelle": own.organelle.id,
                "learning_rate": own.organelle.learning_rate * run.rule.rate(run.config.plasticity),
                "items": len(own.right),
                "correct": int(own.right.sum()),
                "p": own.p,
                "fate": fate if own.organelle.id in beaten else "goes on",
            }
            for own in standings
        ],
    )
