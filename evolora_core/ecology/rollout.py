"""Admit, allocate, act, settle, trade: from energy to graded and paid episodes, and to memories worth learning."""

import time
from dataclasses import dataclass

import numpy as np

from evolora_core import rng
from evolora_core.ecology.ledger import SINK, SUN, micro
from evolora_core.ecology.state import Organelle, State
from evolora_core.ecology.verdict import observed
from evolora_core.ecology.world import World
from evolora_core.evaluation.grading import answer_items, charge
from evolora_core.evaluation.outcome import Outcome
from evolora_core.plasticity import Memory
from evolora_core.plasticity.search import ALTERNATIVES, ROOT, Tree, next_branches

LEARNER = 12.0  # weight of a learner in the share-out of episodes, whatever the allocation


@dataclass(frozen=True)
class Group:
    """One organelle's task: an item, to be answered `config.samples` times."""

    organelle: Organelle
    item: int


def admit(world: World, state: State) -> list[Organelle]:
    """The organelles that pay the ticket, which take part. One that cannot pay gets a strike, and retires after
    `economy.strikes` of them in a row.
    """
    if world.mode == "single":
        return state.living
    economy = world.config.economy
    ticket = micro(economy.ticket)
    admitted = []
    for organelle in world.awake(state):
        if state.ledger.balance(organelle.id) >= ticket:
            state.ledger.post(state.generation, "ticket", str(organelle.id), SINK, ticket)
            admitted.append(state.change(organelle, strikes=0))
        elif organelle.strikes + 1 >= economy.strikes:
            state.retire(organelle, "bankrupt")
        else:
            state.change(organelle, strikes=organelle.strikes + 1)
    return admitted


def allocate(world: World, state: State, admitted: list[Organelle]) -> list[Group]:
    """Give out the items: one to each admitted organelle, the rest by energy and credit. The curriculum chooses the
    cells.
    """
    if not admitted:
        return []
    draw = world.stream(state.generation, 0, "allocate")
    total = world.config.episodes // world.config.samples
    # The square root keeps the rich from taking everything: energy is evidence of skill, but a noisy one.
    energy = [1 if world.uniform else max(state.ledger.balance(organelle.id), 1) for organelle in admitted]
    weight = np.sqrt(energy)
    weight *= world.credit(state)[[organelle.slot for organelle in admitted]]
    # What a learner finds is what its present weights lack, and what it is asked shows what it has learned.
    weight *= [LEARNER if organelle.learned == state.generation - 1 >= 0 else 1.0 for organelle in admitted]
    shares = 1 + draw.multinomial(total - len(admitted), weight / weight.sum())
    groups = []
    for organelle, share in zip(admitted, shares, strict=True):
        chances = cell_chances(world, state, organelle.niche)
        for cell in draw.choice(len(world.cells), size=share, p=chances):
            groups.append(Group(organelle, int(draw.choice(world.members[cell]))))
    return groups


def cell_chances(world: World, state: State, niche: str) -> np.ndarray:
    """Probability `[cells]` that an organelle of a niche practises each cell.

    Within the niche, and within the rest, a share is uniform; the remainder follows learning progress (the gap
    between a fast and a slow success average, as in Oudeyer et al. 2007) plus the variance p(1-p) of the reward,
    without which a sample teaches nothing.
    """
    config = world.config.curriculum
    fast, slow = state.curriculum[:, 0], state.curriculum[:, 1]
    progress = 1.0 if world.uniform else np.abs(fast - slow) + fast * (1 - fast) + 1e-6
    interest = progress * world.interest(state)
    there = world.present(state) @ world.inside
    inside = np.array([family == niche for family, _ in world.cells]) & there
    outside = ~inside & there
    chances = np.zeros(len(world.cells))
    for part, share in ((inside, config.focus), (outside, 1 - config.focus)):
        if part.any():
            share = share if inside.any() and outside.any() else 1.0
            mixed = config.uniform * part / part.sum() + (1 - config.uniform) * part * interest / interest[part].sum()
            chances += share * mixed
    result: np.ndarray = chances / chances.sum()
    return result


def act(world: World, state: State, groups: list[Group]) -> list[list[Outcome]]:
    """Every answer of every group, in as few batched generates as the rule allows; charged as rollouts."""
    started = time.perf_counter()
    answers = (_search if world.rule.searches else _sample)(world, state, groups)
    charge(state.meter, "rollout", [outcome for own in answers for outcome in own], time.perf_counter() - started)
    return answers


def _sample(world: World, state: State, groups: list[Group]) -> list[list[Outcome]]:
    """`config.samples` independent samples of every group, each organelle at its own temperature."""
    samples = world.config.samples
    repeated = [group for group in groups for _ in range(samples)]
    outcomes = answer_items(
        world.host,
        state.population,
        [world.items[group.item] for group in repeated],
        np.array([group.organelle.slot for group in repeated]),
        decoding=world.decoding,
        temperatures=[group.organelle.temperature for group in repeated],
        keys=rng.row_keys(rng.key(world.seed, state.generation, 0, "act", world.mode), len(repeated)),
        sampled=world.rule.on_policy,
    )
    outcomes = observed(outcomes, world.config.verifier_error, world.seed)
    return [outcomes[i : i + samples] for i in range(0, len(outcomes), samples)]


def _search(world: World, state: State, groups: list[Group]) -> list[list[Outcome]]:
    """A greedy answer of every group, then alternatives for the unsolved ones until the episodes are used up."""
    plasticity = world.config.plasticity
    trees = [Tree() for _ in groups]
    answers: list[list[Outcome]] = [[] for _ in groups]
    following = [(number, ROOT) for number in range(len(groups))]
    left = world.config.episodes - len(groups)
    stage = 0
    while following:
        outcomes = answer_items(
            world.host,
            state.population,
            [world.items[groups[number].item] for number, _ in following],
            np.array([groups[number].organelle.slot for number, _ in following]),
            decoding=world.decoding,
            prefixes=[branch.prefix for _, branch in following],
            alternatives=ALTERNATIVES,
        )
        outcomes = observed(outcomes, world.config.verifier_error, world.seed)
        for (number, branch), outcome in zip(following, outcomes, strict=True):
            answers[number].append(outcome)
            trees[number].solved |= outcome.grade.correct
            if outcome.alternatives is not None:
                credit = plasticity.partial_credit * outcome.grade.score
                ends, cap = world.host.eos_ids, world.decoding.max_new_tokens
                trees[number].expand(outcome.tokens, branch, credit, outcome.alternatives, ends, cap)
        following = next_branches(trees, stage, plasticity.calls, left)
        left -= len(following)
        stage += 1
    return answers


def settle(
    world: World, state: State, groups: list[Group], answers: list[list[Outcome]]
) -> list[tuple[Organelle, Memory]]:
    """Pay ρ for each right answer, charge the FLOPs of every answer, and update the averages. Returns the memories that
    the rule made, each with its finder.
    """
    generation = state.generation
    found: list[tuple[Organelle, Memory]] = []
    state.practice[:, world.present(state) @ world.inside] *= 1 - world.config.curriculum.smoothing
    success: dict[int, list[bool]] = {}
    episode = 0
    for group, own in zip(groups, answers, strict=True):
        organelle, cell = group.organelle, int(world.cell_of[group.item])
        correct = [outcome.grade.correct for outcome in own]
        for sample, outcome in enumerate(own):
            reward = world.reward if outcome.grade.correct else 0
            cost = world.energy(outcome.flops)
            state.ledger.post(generation, "reward", SUN, str(organelle.id), reward)
            state.ledger.post(generation, "answer", str(organelle.id), SINK, cost)
            state.events["episodes"].append(
                {
                    "generation": generation,
                    "episode": episode,
                    "organelle": organelle.id,
                    "slot": organelle.slot,
                    "task_id": outcome.item.task_id,
                    "family": outcome.item.family,
                    "depth": outcome.item.depth,
                    "sample": sample,
                    "reward": reward,
                    "cost": cost,
                    "score": outcome.grade.score,
                    "correct": outcome.grade.correct,
                    "prompt_tokens": outcome.prompt_tokens,
                    "answer_tokens": outcome.answer_tokens,
                }
            )
            episode += 1
        # What a search finds after its first answer is no evidence of what the organelle can do unaided.
        unaided = correct[:1] if world.rule.searches else correct
        state.practice[organelle.slot, cell] += (len(unaided), sum(unaided))
        success.setdefault(cell, []).extend(unaided)
        gold = world.gold_tokens[group.item]
        for memory in world.rule.remember(group.item, [tuple(outcome.tokens) for outcome in own], correct, gold):
            state.buffers[organelle.id].add(memory, world.config.plasticity.buffer)
            found.append((organelle, memory))
    fast = world.config.curriculum.smoothing
    for cell, results in success.items():
        step = np.array([fast, fast / 4])
        state.curriculum[cell] += step * (np.mean(results) - state.curriculum[cell])
    return found


def trade(world: World, state: State, found: list[tuple[Organelle, Memory]]) -> None:
    """Sell each memory to every living organelle of the finder's niche that lacks it and can pay. The buyer rehearses
    it as its own.
    """
    price = micro(world.config.economy.answer_price)
    for finder, memory in found:
        for buyer in state.living:
            wanted = buyer.niche == finder.niche and buyer.id != finder.id and memory not in state.buffers[buyer.id]
            if wanted and state.ledger.balance(buyer.id) >= price:
                state.ledger.post(state.generation, "sale", str(buyer.id), str(finder.id), price)
                state.buffers[buyer.id].add(memory, world.config.plasticity.buffer)
