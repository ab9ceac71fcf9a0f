"""Replay: strategies walk a landscape whose every distinct model was measured, so a run costs table look-ups alone.

What a strategy would have done with a budget is then known for as many seeds as one likes, and the optimum as well:
regret = the greatest score of the landscape minus the best score that the run has seen.
"""

from collections.abc import Sequence

import numpy as np

from evolora_core.searches.merging.spaces.routes import Routes
from evolora_core.searches.merging.strategies.base import Candidate, Problem
from evolora_core.searches.merging.strategies.registry import make_strategy

IDLE = 5  # generations without a new model after which a run is over, as in the real loop (evolution.py)


def simulate(
    strategies: Sequence[str],
    table: np.ndarray,
    space: Routes,
    *,
    seeds: Sequence[int],
    evaluations: int,
    domains: np.ndarray | None = None,
    solved: np.ndarray | None = None,
    item_domains: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Regret `[strategies, seeds, evaluations]` after each evaluation; before anything lives, infinite.

    A model that was measured before costs nothing, as in the real loop. A run that ends early keeps its regret.

    table         `[models]` score of each distinct model, in the order of `space.distinct`; NaN: it failed
    domains       `[models, domains]` the same by domain; None: one domain
    solved        `[models, items]` bool, what each solves; None: nothing is known of items
    item_domains  `[items]` the domain of each item; None: the first
    weights       `[domains]` of each domain in the score; None: all alike
    """
    if len(table) != space.models or not np.isfinite(table).any():
        raise ValueError(f"the table has {len(table)} scores; the space has {space.models} distinct models")
    by_domain = table[:, None] if domains is None else domains
    by_item = np.zeros((len(table), 0), dtype=bool) if solved is None else solved.astype(bool)
    of = np.zeros(by_item.shape[1], dtype=int) if item_domains is None else item_domains
    own = np.ones(by_domain.shape[1]) if weights is None else weights
    optimum = float(np.nanmax(table))
    regret = np.empty((len(strategies), len(seeds), evaluations))
    for row, name in enumerate(strategies):
        for column, seed in enumerate(seeds):
            best = _walk(name, Problem.of(space, seed, of, own), space, table, by_domain, by_item, evaluations)
            regret[row, column] = optimum - best
    return regret


def _walk(
    name: str,
    problem: Problem,
    space: Routes,
    table: np.ndarray,
    domains: np.ndarray,
    solved: np.ndarray,
    evaluations: int,
) -> np.ndarray:
    """The best score after each evaluation of a run, `[evaluations]`."""
    strategy = make_strategy(name, problem)
    past: list[Candidate] = []
    known: set[int] = set()
    best = np.full(evaluations, -np.inf)
    so_far, idle, generation = -np.inf, 0, 0
    while idle < IDLE and len(known) < evaluations:
        before = len(known)
        proposals = strategy.propose(generation, past)
        for slot, proposal in enumerate(proposals):
            model = space.key(proposal.genome)
            score = None if np.isnan(table[model]) else float(table[model])
            if model not in known:
                if len(known) == evaluations:
                    break
                so_far = max(so_far, -np.inf if score is None else score)
                best[len(known)] = so_far
                known.add(model)
            past.append(Candidate(len(past), generation, slot, proposal, score, domains[model], solved[model]))
        if not proposals:
            break
        idle = idle + 1 if len(known) == before else 0
        generation += 1
    best[len(known) :] = so_far
    return best
