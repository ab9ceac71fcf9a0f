"""Control: organelles answer, are paid and charged, and learn nothing."""

from collections.abc import Sequence

from evolora_core.searches.adapters.ecology.learning.asking import samples
from evolora_core.searches.adapters.ecology.organelle import Group
from evolora_core.searches.adapters.ecology.run import Answers, Rule, Run
from evolora_core.searches.adapters.settings.ecology import PlasticityConfig


def learn(run: Run, groups: Sequence[Group], answers: Answers) -> None:
    """Learn nothing."""


def row_cost(config: PlasticityConfig) -> int:
    """Nothing: there are no steps."""
    return 0


RULE = Rule("control", act=samples, learn=learn, row_cost=row_cost)
