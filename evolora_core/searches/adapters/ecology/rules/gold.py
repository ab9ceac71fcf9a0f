"""Supervised: an organelle rehearses the gold answer of each item that it met. Not a reward-only rule."""

from collections.abc import Sequence

from evolora_core.searches.adapters.ecology.learning.asking import samples
from evolora_core.searches.adapters.ecology.learning.rehearsal import cool, cooldown, rehearse
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.run import Rule


def gold_memories(
    item: int, answers: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """The gold answer, whatever the answers were."""
    return [Memory(item, gold, 1.0)]


RULE = Rule(
    "online supervised steps",
    act=samples,
    learn=rehearse,
    remember=gold_memories,
    sees_gold=True,
    cooldown=cooldown,
    cool=cool,
)
