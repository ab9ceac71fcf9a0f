"""What a strategy is: from all candidates so far it proposes those of the next generation.

A strategy has no state of its own that is not derived from the candidates so far, the seed and the number of the
generation. That makes resume exact: what is proposed after a kill is what would have been proposed without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.spaces.base import Space


@dataclass(frozen=True)
class Proposal:
    """A genome to be measured: how it was made, and of whom (number of the candidate, role)."""

    genome: Genome
    operator: str
    parents: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Candidate:
    """A genome that was measured.

    number      its place among all candidates of the run, from 0
    score       weighted mean over domains of the mean log-likelihood of a gold token (nats, 0 is perfect); None: it
                failed, and never wins
    domains     `[domains]`, the same by domain
    solved      `[items]` bool: items whose gold answer is what greedy decoding gives
    """

    number: int
    generation: int
    slot: int
    proposal: Proposal
    score: float | None
    domains: np.ndarray
    solved: np.ndarray

    @property
    def genome(self) -> Genome:
        """Its recipe."""
        return self.proposal.genome


@dataclass(frozen=True)
class Problem:
    """What is searched: the space, the seed of all streams, and what counts how much in the score.

    item_weights    `[items]` of each search item, 1 on average; an item of a domain without weight has 0
    domain_weights  `[domains]` of each domain, 1 on average
    """

    space: Space
    seed: int
    item_weights: np.ndarray
    domain_weights: np.ndarray

    @classmethod
    def of(cls, space: Space, seed: int, item_domains: np.ndarray, weights: np.ndarray) -> "Problem":
        """The problem of items of these domains (`[items]`, numbers), weighted as in the score (`[domains]`, of any
        sum). The items of a domain share its weight.
        """
        domain_weights = (weights / weights.mean()).round(9)  # equal ones are 1 exactly
        items = np.bincount(item_domains, minlength=len(weights))
        share = len(item_domains) / (len(weights) * items[item_domains])
        return cls(space, seed, domain_weights[item_domains] * share, domain_weights)


class Strategy(Protocol):
    """Proposes a generation. An empty list: there is nothing left to propose."""

    def propose(self, generation: int, past: Sequence[Candidate]) -> list[Proposal]: ...


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that did not fail, the best first; of equal ones the earlier."""
    alive = [candidate for candidate in candidates if candidate.score is not None]
    return sorted(alive, key=lambda candidate: (-(candidate.score or 0.0), candidate.number))
