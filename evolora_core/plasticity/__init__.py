"""Plasticity rules: how an organelle's own weights change from its episodes.

Most rules turn the graded samples of one item by one organelle into memories; the shared learning step rehearses them,
for the whole population in one pass. A rule on policy learns from this generation's answers themselves, the wrong ones
too, and keeps nothing; `es` learns from what perturbed copies answer. `sees_gold` says whether a rule may look at gold
targets: headline comparisons use rules that do not.
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
    `on_policy`: each learner takes steps on its own answers of the generation, which are neither kept nor sold.
    `forward_only`: these steps are Hebbian updates instead of gradients.
    `perturbs`: each learner takes steps on what perturbed copies of it answer, which is neither kept nor sold.
    """

    remember: Callable[[int, Sequence[tuple[int, ...]], Sequence[bool], tuple[int, ...]], list[Memory]]
    sees_gold: bool
    source: str
    searches: bool = False
    on_policy: bool = False
    forward_only: bool = False
    perturbs: bool = False

    @property
    def rehearses(self) -> bool:
        """Whether it learns from memories."""
        return not (self.on_policy or self.perturbs)


def nothing(
    item: int, samples: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """No memories."""
    return []


RULES: dict[str, Rule] = {
    "none": Rule(nothing, sees_gold=False, source="control"),
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
    "grpo": Rule(
        nothing,
        sees_gold=False,
        source="group-relative policy gradient (arXiv 2402.03300) without division by the deviation (arXiv 2503.20783)",
        on_policy=True,
    ),
    "hebbian": Rule(
        nothing,
        sees_gold=False,
        source="three-factor rule with eligibility traces (arXiv 1801.05219) and a broadcast error (as in e-prop)",
        on_policy=True,
        forward_only=True,
    ),
    "es": Rule(
        nothing,
        sees_gold=False,
        source="evolution strategies with mirrored (arXiv 1703.03864), low-rank perturbations (arXiv 2511.16652)",
        perturbs=True,
    ),
    "gold": Rule(gold_memories, sees_gold=True, source="online supervised steps"),
}

__all__ = ["RULES", "Buffer", "Memory", "Rule"]
