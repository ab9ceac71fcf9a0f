"""Supervised: an organelle rehearses the gold answer of each item that it met. Not a reward-only rule."""

from collections.abc import Sequence

from evolora_core.plasticity.buffer import Memory


def gold_memories(
    item: int, samples: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """The gold answer, whatever the samples were."""
    return [Memory(item, gold, 1.0)]
