"""The test that a merged child must pass: sequential, paired, exact, with alpha spending.

Child, parents and host answer the same items. At each of a few planned looks the one-sided exact McNemar test (sign
test on the items on which exactly one of two is right) compares the child with every reference that it has not beaten
yet; what is beaten need not answer further items. All must be beaten (intersection-union test, Berger 1982), so the
level of the whole is that of one comparison. The levels of the looks are the increments of a spending function
α(t) = α t² (Kim and DeMets 1987); their sum is α, so the false-accept rate is at most α whatever the dependence between
looks. A look that leaves the planned gain over some reference out of reach ends the test: that can only lower the
rate.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import special

OUT_OF_REACH = 1.5  # standard errors by which the planned gain must be missed for a test to end early


@dataclass(frozen=True)
class Design:
    """Sample sizes and levels of the looks of one test, and the gain in accuracy that it is built to find."""

    uplift: float
    discordance: float
    sizes: tuple[int, ...]
    levels: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """Result of a test so far: `accepted` is None while it goes on. Uplift and p are against the best reference."""

    accepted: bool | None
    reason: str
    uplift: float
    p: float


def design_test(alpha: float, power: float, uplift: float, looks: int, discordance: float) -> Design:
    """Looks of a test that finds a gain of `uplift` in accuracy with the given power.

    Largest n: Connor (1987), sample size of the paired McNemar test, at the level that is left for the last look and
    with the continuity correction that an exact test needs; `discordance` is the share of items on which two arms
    differ. Half of the tolerated misses are left to the tests that `OUT_OF_REACH` ends too early. Each look has twice
    the sample of the one before: most candidates are no better than their parents, and the small first sample, the
    minimum n, is enough to end many of their tests.
    """
    shares = [0.0, *(0.5**halvings for halvings in reversed(range(looks)))]
    spent = [alpha * share**2 for share in shares]
    levels = tuple(spent[look + 1] - spent[look] for look in range(looks))
    z_alpha, z_beta = -special.ndtri(levels[-1]), -special.ndtri((1 - power) / 2)
    spread = math.sqrt(max(discordance - uplift**2, 1e-6))
    largest = math.ceil(((z_alpha * math.sqrt(discordance) + z_beta * spread) / uplift) ** 2 + 1 / uplift)
    return Design(uplift, discordance, tuple(math.ceil(largest * share) for share in shares[1:]), levels)


def superiority_p(child: np.ndarray, reference: np.ndarray) -> float:
    """One-sided exact McNemar p that the child is right more often. Boolean arrays `[n]` over the same items."""
    wins = int(np.sum(child & ~reference))
    losses = int(np.sum(~child & reference))
    if wins + losses == 0:
        return 1.0
    n = wins + losses  # whole numbers: a p of one half is one half, which `contest.alpha` may ask for
    ways = tail = 1  # to win all n, then n - 1, and so on down to `wins`
    for won in range(n - 1, wins - 1, -1):
        ways = ways * (won + 1) // (n - won)
        tail += ways
    p: float = tail / 2**n
    return p


@dataclass
class PairedTest:
    """One child against its references, which are known by number; `beaten` holds (uplift, p) of those behind it."""

    design: Design
    beaten: dict[int, tuple[float, float]] = field(default_factory=dict)

    def look(self, index: int, child: np.ndarray, open_references: Mapping[int, np.ndarray]) -> Verdict:
        """Judge at look `index`: outcomes so far (boolean, `[n]`) of the child and of each reference not beaten yet."""
        behind: list[tuple[float, float]] = []
        for number, reference in open_references.items():
            result = (float(child.mean() - reference.mean()), superiority_p(child, reference))
            if result[1] <= self.design.levels[index]:
                self.beaten[number] = result
            else:
                behind.append(result)
        results = [*behind, *self.beaten.values()]
        uplift, p = min(result[0] for result in results), max(result[1] for result in results)
        if not behind:
            return Verdict(True, "better", uplift, p)
        worst = min(result[0] for result in behind)
        error = math.sqrt(self.design.discordance / len(child))
        if worst < self.design.uplift - OUT_OF_REACH * error:
            return Verdict(False, "not ahead" if worst <= 0 else "too small a gain", uplift, p)
        if index == len(self.design.sizes) - 1:
            return Verdict(False, "low power", uplift, p)
        return Verdict(None, "continue", uplift, p)


def worst_drop(child: np.ndarray, reference: np.ndarray, alpha: float) -> float:
    """Upper confidence bound (level 1-alpha) of the accuracy that the child loses against `reference` on the same
    items.

    Normal bound of the paired difference with one pseudo-count either way, so that identical answers still have a
    width.
    """
    n = len(child)
    wins = int(np.sum(child & ~reference)) + 0.5
    losses = int(np.sum(~child & reference)) + 0.5
    mean = (wins - losses) / (n + 1)
    variance = (wins + losses) / (n + 1) - mean**2
    return float(-(mean + special.ndtri(alpha) * math.sqrt(variance / (n + 1))))
