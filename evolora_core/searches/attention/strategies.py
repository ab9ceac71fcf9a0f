"""Which programs a strategy starts from. What is made of them is for a proposer to say.

All strategies of a run seed have the same first generation, drawn from the grammar. After it

- `random` goes on drawing,
- `greedy` changes the best program so far, the baseline being one of them,
- `evolution` draws parents among the best ten, the baseline counted, with the weights of ShinkaEvolve: a sigmoid of the
  score in units of the median absolute deviation, over one more than the children that a program has had; a child has
  one parent or two,
- `evolution-archive` draws them in the same way where only the best of each kind (`programs/kinds.py`) and the baseline
  count,
- `evolution-islands` where only programs whose slot is of the same island and the baseline do; in every third
  generation all.

No strategy has a state of its own: what it asks for follows from the candidates so far, the seed and the slot.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.candidates import Candidate, ranked
from evolora_core.searches.attention.programs.kinds import kind_of

BASELINE = -1  # the number of the baseline among parents; its score is 0 by definition
POOL = 10  # best programs that have children, the baseline counted among them
ISLANDS, MEETING = 2, 3  # islands, and generations from one in which they meet to the next
STEEP = 10.0  # of the sigmoid
TRIES = 20  # times that a slot is asked again because its program is known
ASKED_TRIES = 3  # the same where each try is a question that costs money


def parents(strategy: str, past: Sequence[Candidate], seed: int, generation: int, slot: int) -> tuple[int, ...]:
    """The numbers of the parents of a proposal; none: it is drawn."""
    if generation == 0 or strategy == "random":
        return ()
    scores = {BASELINE: 0.0} | {own.number: own.score or 0.0 for own in _living(strategy, past, generation, slot)}
    order = sorted(scores, key=lambda number: (-scores[number], number))
    if strategy == "greedy":
        return (order[0],)
    pool = order[:POOL]
    weights = np.array([_weight(scores[number], [scores[own] for own in pool]) for number in pool])
    children = Counter(parent for own in past for parent in own.parents)
    weights /= 1 + np.array([children[number] for number in pool])
    rng = stream(seed, generation, slot, "parents")
    first = int(rng.choice(len(pool), p=weights / weights.sum()))
    if strategy == "evolution-no-crossover" or len(pool) < 2:
        return (pool[first],)
    weights[first] = 0
    return (pool[first], pool[int(rng.choice(len(pool), p=weights / weights.sum()))])


def _living(strategy: str, past: Sequence[Candidate], generation: int, slot: int) -> list[Candidate]:
    """Those among which a strategy looks for parents."""
    living = ranked(past)
    if strategy == "evolution-archive":
        best = {kind_of(own.source): own for own in reversed(living)}
        return [own for own in living if best[kind_of(own.source)] is own]
    if strategy == "evolution-islands" and generation % MEETING:
        return [own for own in living if own.slot % ISLANDS == slot % ISLANDS]
    return living


def _weight(score: float, pool: Sequence[float]) -> float:
    middle = float(np.median(pool))
    spread = float(np.median(np.abs(np.array(pool) - middle)))
    return float(1 / (1 + np.exp(-np.clip(STEEP * (score - middle) / spread, -30, 30)))) if spread else 0.5
