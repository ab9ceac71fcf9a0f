"""Admit, allocate, act, settle, trade: from energy to graded and paid episodes, and to memories worth learning."""

import time
from collections.abc import Sequence

import numpy as np

from evolora_core.lora.answering.grading import charge
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.searches.adapters.ecology.events import Row
from evolora_core.searches.adapters.ecology.ledger import SINK, SUN, micro
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.merit import appraise, cell_chances
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.phases.rewards import rewards
from evolora_core.searches.adapters.ecology.run import Answers, Run

LEARNER = 12.0  # weight of a learner in the share-out of episodes, whatever the allocation


def admit(run: Run) -> list[Organelle]:
    """The organelles that pay the ticket, which take part. One that cannot pay gets a strike, and retires after
    `economy.strikes` of them in a row.
    """
    state, economy = run.state, run.config.economy
    admitted = []
    for organelle in run.awake():
        ticket = run.regime.ticket(state.ledger.balance(organelle.id), economy)
        if ticket is None:
            state.strike(organelle, economy.strikes)
        else:
            admitted.append(state.admit(organelle, ticket))
    return admitted


def allocate(run: Run, admitted: Sequence[Organelle]) -> list[Group]:
    """Give out the items: one to each admitted organelle, the rest by energy and credit. The curriculum chooses the
    cells. Those who contend in a niche, or share rewards, get the same items.
    """
    if not admitted:
        return []
    state, merit = run.state, appraise(run)
    draw = run.stream(0, "allocate")
    total = run.config.episodes // run.config.samples
    # The square root keeps the rich from taking everything: energy is evidence of skill, but a noisy one.
    energy = [1 if run.uniform else max(state.ledger.balance(organelle.id), 1) for organelle in admitted]
    weight = np.sqrt(energy)
    weight *= merit.credit[[organelle.slot for organelle in admitted]]
    # What a learner finds is what its present weights lack, and what it is asked shows what it has learned.
    weight *= [LEARNER if organelle.learned == state.generation - 1 >= 0 else 1.0 for organelle in admitted]
    shares = 1 + draw.multinomial(total - len(admitted), weight / weight.sum())
    # No set: words in one have another order in each process, and items are drawn in this order.
    chances = {niche: cell_chances(run, merit, niche) for niche in dict.fromkeys(own.niche for own in admitted)}

    def items(share: int, niche: str) -> list[int]:
        """None comes twice before all of its cell have come: the same question again teaches nothing."""
        cells = draw.choice(len(run.task.cells), size=share, p=chances[niche])
        drawn = np.empty(share, dtype=np.int64)
        for cell in np.unique(cells):
            places, members = np.flatnonzero(cells == cell), run.task.members[cell]
            rounds = -(-len(places) // len(members))
            drawn[places] = np.concatenate([draw.permutation(members) for _ in range(rounds)])[: len(places)]
        return drawn.tolist()

    contest = run.config.contest
    common_items = contest.contenders > 1 and contest.practice == "common"
    if not common_items and run.config.economy.reward == "each":
        drawn = [items(share, own.niche) for own, share in zip(admitted, shares, strict=True)]
    else:  # what is compared, or shared, is of the same items
        niches = np.array([own.niche for own in admitted])
        common = {niche: items(int(shares[niches == niche].mean()), niche) for niche in chances}
        drawn = [common[own.niche] for own in admitted]
    return [Group(own, item) for own, its_items in zip(admitted, drawn, strict=True) for item in its_items]


def act(run: Run, groups: Sequence[Group]) -> Answers:
    """Every answer of every group, as the rule asks for them; charged as rollouts."""
    started = time.perf_counter()
    answers = run.rule.act(run, groups)
    outcomes = [outcome for own in answers for outcome in own]
    charge(run.state.meter, "rollout", outcomes, time.perf_counter() - started)
    return answers


def settle(run: Run, groups: Sequence[Group], answers: Answers) -> list[tuple[Organelle, Memory]]:
    """Pay for each right answer, charge the FLOPs of every answer, and update the averages. Returns the memories that
    the rule made, each with its finder.
    """
    state, smoothing = run.state, run.config.curriculum.smoothing
    state.fade(run.present_cells, smoothing)
    found: list[tuple[Organelle, Memory]] = []
    success: dict[int, list[bool]] = {}
    episodes: list[Row] = []
    for group, own, prizes in zip(groups, answers, rewards(run, groups, answers), strict=True):
        organelle, cell = group.organelle, int(run.task.cell_of[group.item])
        for sample, (outcome, reward) in enumerate(zip(own, prizes, strict=True)):
            paid = _pay(run, organelle, outcome, reward)
            episodes.append({"episode": len(episodes), "sample": sample} | _facts(run, organelle, outcome) | paid)
        evidence = run.rule.evidence([outcome.grade.correct for outcome in own])
        state.observe(organelle, cell, evidence)
        success.setdefault(cell, []).extend(evidence)
        for memory in run.rule.memories(run.task, group.item, own):
            state.remember(organelle, memory, run.memories)
            found.append((organelle, memory))
    state.events.add("episodes", episodes)
    state.follow(success, smoothing)
    return found


def _pay(run: Run, organelle: Organelle, outcome: Outcome, reward: int) -> dict[str, int]:
    """Reward and cost of an answer, in micro-energy, which are posted."""
    cost = run.task.energy(outcome.flops)
    ledger, generation, name = run.state.ledger, run.state.generation, str(organelle.id)
    ledger.post(generation, "reward", SUN, name, reward)
    ledger.post(generation, "answer", name, SINK, cost)
    return {"reward": reward, "cost": cost}


def _facts(run: Run, organelle: Organelle, outcome: Outcome) -> Row:
    """What the table of episodes says of an answer."""
    return {
        "generation": run.state.generation,
        "organelle": organelle.id,
        "slot": organelle.slot,
        "task_id": outcome.item.task_id,
        "family": outcome.item.family,
        "depth": outcome.item.depth,
        "score": outcome.grade.score,
        "correct": outcome.grade.correct,
        "prompt_tokens": outcome.prompt_tokens,
        "answer_tokens": outcome.answer_tokens,
    }


def trade(run: Run, found: Sequence[tuple[Organelle, Memory]]) -> None:
    """Sell each memory to every living organelle of the finder's niche that lacks it, and can pay for it and for its
    next ticket. The buyer rehearses it as its own.
    """
    economy, living = run.config.economy, run.state.living
    price, ticket = micro(economy.answer_price), micro(economy.ticket)
    for finder, memory in found:
        run.state.sell(finder, memory, price, run.memories, living, kept=ticket)
