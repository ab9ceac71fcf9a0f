"""Plasticity rules: how an organelle's own weights change from its episodes.

A rule turns the graded samples of one item by one organelle into memories; the shared learning step rehearses them,
for the whole population in one pass. `sees_gold` says whether a rule may look at gold targets: headline comparisons
use rules that do not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evolora_core.plasticity.buffer import Buffer, Memory
from evolora_core.plasticity.gold import gold_memories
from evolora_core.plasticity.reinforce import verified_memories
from evolora_core.plasticity.search import found_memories


@dataclass(frozen=True)
class Rule:
    """`remember(item number, answers, correct, gold tokens)` gives the memories of one group of answers.

    `searches`: the answers of a group are a greedy one and alternatives to it, instead of independent samples.
    """

    remember: Callable[[int, Sequence[tuple[int, ...]], Sequence[bool], tuple[int, ...]], list[Memory]]
    sees_gold: bool
    source: str
    searches: bool = False


RULES: dict[str, Rule] = {
    "none": Rule(lambda item, samples, correct, gold: [], sees_gold=False, source="control"),
    "reinforce": Rule(
        verified_memories,
        sees_gold=False,
        source="expert iteration / rejection-sampling fine-tuning (arXiv 2308.01825)",
    ),
    "search": Rule(
        found_memories,
        sees_gold=False,
        source="best-first search over token alternatives, then as reinforce",
        searches=True,
    ),
    "gold": Rule(gold_memories, sees_gold=True, source="online supervised steps"),
}

__all__ = ["RULES", "Buffer", "Memory", "Rule"]
