"""Rewards only: an organelle rehearses its own answers that the verifier accepted."""

from collections.abc import Sequence

from evolora_core.searches.adapters.ecology.learning.asking import samples
from evolora_core.searches.adapters.ecology.learning.rehearsal import cool, cooldown, rehearse
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.run import Rule


def verified_memories(
    item: int, answers: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """The distinct accepted answers, weighted by how rarely the item is solved: 1 - share of right samples.

    This is the advantage of a right answer over the group's mean reward (as in GRPO, arXiv 2402.03300, without the
    division by the deviation). An item that every answer solves teaches nothing and is not remembered. `gold` is not
    looked at.
    """
    advantage = 1 - sum(correct) / len(correct)
    if advantage == 0:
        return []
    accepted = dict.fromkeys(answer for answer, right in zip(answers, correct, strict=True) if right)
    return [Memory(item, answer, advantage) for answer in accepted]


RULE = Rule(
    "expert iteration / rejection-sampling fine-tuning (arXiv 2308.01825)",
    act=samples,
    learn=rehearse,
    remember=verified_memories,
    cooldown=cooldown,
    cool=cool,
)
