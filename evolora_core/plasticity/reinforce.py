"""Rewards only: an organelle rehearses its own answers that the verifier accepted."""

from collections.abc import Sequence

from evolora_core.plasticity.buffer import Memory


def verified_memories(
    item: int, samples: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """The distinct accepted answers, weighted by how rarely the item is solved: 1 - share of right samples.

    This is the advantage of a right answer over the group's mean reward (as in GRPO, arXiv 2402.03300, without the
    division by the deviation). An item that every sample solves teaches nothing and is not remembered. `gold` is not
    looked at.
    """
    advantage = 1 - sum(correct) / len(correct)
    if advantage == 0:
        return []
    accepted = dict.fromkeys(sample for sample, right in zip(samples, correct, strict=True) if right)
    return [Memory(item, sample, advantage) for sample in accepted]
