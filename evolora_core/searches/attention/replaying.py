"""Replay: strategies walk the exhaustive table, so that a run costs look-ups alone.

The loop is that of `evolution.py`, with its strategies and the proposer of the grammar. Three things differ: a genome
is its own identity (no two of the table make the same program), a run ends after so many distinct programs instead of
FLOPs, and it chooses the baseline where nothing that it measured is better. A strategy that asks for what is known too
often in a row ends before, as there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evolora_core.searches.attention.candidates import Candidate
from evolora_core.searches.attention.evolution import NAME, RECENT
from evolora_core.searches.attention.exhaustive import BASELINE, Worth, candidate, genomes, number_of
from evolora_core.searches.attention.grammar.genes import genome_json
from evolora_core.searches.attention.grammar.table import TABLE
from evolora_core.searches.attention.programs.rejection import Rejection
from evolora_core.searches.attention.proposers.base import Request, Scored
from evolora_core.searches.attention.proposers.grammar import GrammarProposer
from evolora_core.searches.attention.strategies import BASELINE as PLAIN
from evolora_core.searches.attention.strategies import TRIES, parents

REFUSED = Rejection("train", "the table has no score for it", "")


@dataclass(frozen=True)
class Replayed:
    """A run after each distinct program `[programs]`; a run that ends early keeps what it has.

    best          number of the program that it would choose: the baseline, until one has a better score
    regret        greatest score of the table less that of the best
    truth_regret  greatest truth of all programs that have a score, less that of the best; may rise
    measured      distinct programs until it ended
    """

    best: np.ndarray
    regret: np.ndarray
    truth_regret: np.ndarray
    measured: int


def replay(
    strategy: str, table: Sequence[Worth], *, seed: int, programs: int, together: int, failures: int
) -> Replayed:
    """A run of a strategy on the table."""
    order = walk(strategy, table, seed=seed, programs=programs, together=together, failures=failures)
    scores, truths = values(table)
    so_far, best = BASELINE, np.empty(programs, dtype=int)
    for place, number in enumerate(order):
        if scores[number] > scores[so_far]:
            so_far = number
        best[place] = so_far
    best[len(order) :] = so_far
    return Replayed(best, scores.max() - scores[best], truths.max() - truths[best], len(order))


def values(table: Sequence[Worth]) -> tuple[np.ndarray, np.ndarray]:
    """Score and truth `[programs]` of each program; minus infinity where there is no score, and nothing is chosen."""
    alive = [own.score is not None and own.truth is not None for own in table]
    scores = [own.score if good else -np.inf for own, good in zip(table, alive, strict=True)]
    truths = [own.truth if good else -np.inf for own, good in zip(table, alive, strict=True)]
    return np.array(scores, dtype=float), np.array(truths, dtype=float)


def walk(strategy: str, table: Sequence[Worth], *, seed: int, programs: int, together: int, failures: int) -> list[int]:
    """The numbers of the distinct programs of a run in the order in which they are measured, at most `programs`.

    together  programs that are proposed at a time
    failures  programs in a row, refused or known, after which a run is over
    """
    proposer = GrammarProposer(replace(TABLE, render=genome_json))
    past: list[Candidate] = []
    told: dict[int, Scored] = {PLAIN: Scored(NAME, "", TABLE.baseline(), 0.0, None)}
    first = {BASELINE: PLAIN}  # number of a program -> its place among the candidates
    order: list[int] = []
    generation = in_a_row = 0
    while in_a_row < failures and len(order) < programs:
        room = min(together, programs - len(order))
        for own in _propose(strategy, proposer, past, told, seed, generation, room):
            worth = table[int(own.program_id)]
            twin = first.get(worth.program)
            rejection = REFUSED if worth.score is None else None
            past.append(replace(own, score=worth.score, rejection=rejection, twin=twin))
            told[own.number] = Scored(own.program_id, "", own.genome, worth.score, rejection)
            in_a_row = in_a_row + 1 if twin is not None or worth.truth is None else 0
            if twin is None:
                first[worth.program] = own.number
                order.append(worth.program)
        generation += 1
    return order


def _propose(
    strategy: str,
    proposer: GrammarProposer,
    past: Sequence[Candidate],
    told: dict[int, Scored],
    seed: int,
    generation: int,
    together: int,
) -> list[Candidate]:
    """The programs of a generation, as `evolution._propose` asks for them."""
    failures = tuple(told[own.number] for own in past if own.rejection)[-RECENT:]
    known = {int(own.program_id) for own in past} | {BASELINE}
    found: list[Candidate] = []
    for slot in range(together):
        names = parents(strategy, past, seed, generation, slot)
        givers = tuple(told[name] for name in names)
        for attempt in range(TRIES):
            key = (seed, generation, slot + 1000 * attempt)
            made = proposer.propose(Request(TABLE.framework, givers, failures, key))
            number = number_of(made.genome or genomes()[BASELINE])
            if number not in known:
                break
        known.add(number)
        used = tuple(name for name, giver in zip(names, givers, strict=True) if giver.program_id in made.parents)
        found.append(candidate(len(past) + slot, generation, slot, number, used))
    return found
