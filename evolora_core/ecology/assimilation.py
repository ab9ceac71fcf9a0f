"""The test that a merged child must pass: sequential, paired, exact, with alpha spending.

Child, parents and host answer the same items. At each of a few planned looks the one-sided exact McNemar test (sign
test on the items on which exactly one of two is right) compares the child with the strongest objection: every
reference must be beaten (intersection-union test, Berger 1982), so the level of the whole is that of one comparison.
The levels of the looks are the increments of a spending function α(t) = α t² (Kim and DeMets 1987); their sum is α,
so the false-accept rate is at most α whatever the dependence between looks. A look at which the child is not ahead
ends the trial: that can only lower the rate.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Plan:
    """Sample sizes and levels of the looks of one trial."""

    sizes: tuple[int, ...]
    levels: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """Result of a trial so far: `accepted` is None while it goes on."""

    accepted: bool | None
    reason: str
    uplift: float
    p: float


def plan(alpha: float, power: float, uplift: float, looks: int, discordance: float = 0.3) -> Plan:
    """Looks of a trial that finds a gain of `uplift` in accuracy with the given power.

    Largest n: Connor (1987), sample size of the paired McNemar test, at the level that is left for the last look and
    with the continuity correction that an exact test needs; `discordance` is the share of items on which two arms
    differ. The first look is the minimum n: a smaller sample could not tell anything.
    """
    spent = [alpha * (look / looks) ** 2 for look in range(looks + 1)]
    levels = tuple(spent[look + 1] - spent[look] for look in range(looks))
    z_alpha, z_beta = stats.norm.isf(levels[-1]), stats.norm.isf(1 - power)
    spread = math.sqrt(max(discordance - uplift**2, 1e-6))
    largest = math.ceil(((z_alpha * math.sqrt(discordance) + z_beta * spread) / uplift) ** 2 + 1 / uplift)
    return Plan(tuple(math.ceil(largest * look / looks) for look in range(1, looks + 1)), levels)


def superiority_p(child: np.ndarray, reference: np.ndarray) -> float:
    """One-sided exact McNemar p that the child is right more often. Boolean arrays `[n]` over the same items."""
    wins = int(np.sum(child & ~reference))
    losses = int(np.sum(~child & reference))
    if wins + losses == 0:
        return 1.0
    return float(stats.binom.sf(wins - 1, wins + losses, 0.5))


def look(design: Plan, index: int, child: np.ndarray, references: list[np.ndarray]) -> Verdict:
    """Judge the trial at look `index` from the outcomes so far (boolean, `[n]`)."""
    uplift = min(float(child.mean() - reference.mean()) for reference in references)
    p = max(superiority_p(child, reference) for reference in references)
    if p <= design.levels[index]:
        return Verdict(True, "better", uplift, p)
    if uplift <= 0:
        return Verdict(False, "not ahead", uplift, p)
    if index == len(design.sizes) - 1:
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
    return float(-(mean - stats.norm.isf(alpha) * math.sqrt(variance / (n + 1))))
