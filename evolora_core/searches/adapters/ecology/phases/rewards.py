"""What right answers pay: each the same, or the less, the more of a niche know them too (fitness sharing; Goldberg and
Richardson 1987, ICGA 2:41), from a purse without bottom or from a pool that all right answers of a generation divide.
"""

from collections import Counter
from collections.abc import Sequence

from evolora_core.searches.adapters.ecology.ledger import micro
from evolora_core.searches.adapters.ecology.organelle import Group
from evolora_core.searches.adapters.ecology.run import Answers, Run


def rewards(run: Run, groups: Sequence[Group], answers: Answers) -> list[list[int]]:
    """Micro-energy that each answer of each group pays; 0 for a wrong one."""
    economy = run.config.economy
    known: Counter[tuple[str, int]] = Counter()
    if economy.reward == "shared":  # an organelle that answers twice knows it once
        right = {
            (group.organelle.niche, group.item, group.organelle.id)
            for group, own in zip(groups, answers, strict=True)
            if any(outcome.grade.correct for outcome in own)
        }
        known.update((niche, item) for niche, item, _ in right)
    worth = [
        [1 / max(known[group.organelle.niche, group.item], 1) if outcome.grade.correct else 0.0 for outcome in own]
        for group, own in zip(groups, answers, strict=True)
    ]
    unit = economy.rho
    if economy.pool is not None:
        unit = economy.pool / max(sum(map(sum, worth)), 1e-12)
    return [[micro(unit * share) for share in own] for own in worth]


def incomes(run: Run) -> Counter[int]:
    """Micro-energy that each organelle was paid for right answers in the present generation, by id."""
    found: Counter[int] = Counter()
    for row in reversed(run.state.events.fresh["episodes"]):
        if row["generation"] != run.state.generation:
            break
        found[row["organelle"]] += row["reward"]
    return found
