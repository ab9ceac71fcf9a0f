"""What a learning rule is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from evolora_core.errors import ConfigError
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.rules.names import RULES
from evolora_core.searches.adapters.settings.ecology import PlasticityConfig

if TYPE_CHECKING:
    from evolora_core.searches.adapters.ecology.learning.asking import Group
    from evolora_core.searches.adapters.ecology.run import Run
    from evolora_core.searches.adapters.ecology.task import Task

Answers = list[list[Outcome]]  # of each group, in the order of the groups
Remember = Callable[[int, Sequence[tuple[int, ...]], Sequence[bool], tuple[int, ...]], list[Memory]]


def nothing(
    item: int, answers: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """No memories."""
    return []


def everything(correct: Sequence[bool]) -> Sequence[bool]:
    """All answers."""
    return correct


def adamw_rate(config: PlasticityConfig) -> float:
    """AdamW's."""
    return config.learning_rate


def forward_and_backward(config: PlasticityConfig) -> int:
    """Two: a backward pass without gradients of the host's weights takes what a forward pass does."""
    return 2


def no_cooldown(config: PlasticityConfig) -> float:
    """None."""
    return 0.0


def no_steps(run: "Run", decay: Sequence[float]) -> None:
    """Take no steps."""


@dataclass(frozen=True)
class Rule:
    """One way to learn, as plain functions.

    act       what the organelles of a generation answer to their groups, asked for and charged as rollouts
    learn     the generation's learning steps of every learner, charged to their accounts
    remember  (item, answers, which are right, gold) -> what an organelle keeps, and its niche may buy, of the answers
              that it gave to one item. Token ids without EOS; `gold` is empty unless the rule `sees_gold`
    evidence  those of a group's answers, right or wrong, that say what an organelle can do unaided
    rate      learning rate of the first generation
    row_cost  what a row of a learning step costs, in answers of the bare host
    cooldown  steps after the last generation relative to those before it
    cool      the steps of a cooldown, one for each factor of the learning rate

    `source` cites where it comes from. Headline comparisons use rules that see no gold.
    """

    source: str
    act: Callable[["Run", Sequence["Group"]], Answers]
    learn: Callable[["Run", Sequence["Group"], Answers], None]
    remember: Remember = nothing
    sees_gold: bool = False
    evidence: Callable[[Sequence[bool]], Sequence[bool]] = everything
    rate: Callable[[PlasticityConfig], float] = adamw_rate
    row_cost: Callable[[PlasticityConfig], int] = forward_and_backward
    cooldown: Callable[[PlasticityConfig], float] = no_cooldown
    cool: Callable[["Run", Sequence[float]], None] = no_steps

    def memories(self, task: "Task", item: int, answers: Sequence[Outcome]) -> list[Memory]:
        """What an organelle keeps of its answers to an item."""
        gold = task.gold_tokens[item] if self.sees_gold else ()
        tokens = [tuple(answer.tokens) for answer in answers]
        return self.remember(item, tokens, [answer.grade.correct for answer in answers], gold)

    def longest(self, task: "Task") -> int:
        """Tokens of the longest answer that may be remembered."""
        return max(task.decoding.max_new_tokens, max(map(len, task.gold_tokens)) if self.sees_gold else 0)


def rule(name: str) -> Rule:
    """The rule of a name. ConfigError: there is none."""
    if name not in RULES:
        raise ConfigError(f"plasticity.rule: '{name}' is none of {', '.join(RULES)}")
    found: Rule = import_module(RULES[name]).RULE
    return found
