"""Learning rules: how an organelle's own weights change from its episodes. A rule is one file here, with a `RULE`.

A rule's module is imported only where it is asked for by its name: what other rules do is no part of what a run with
this one computes. Nothing else may import it.
"""

from importlib import import_module

from evolora_core.ecology.rules.base import Rule
from evolora_core.errors import ConfigError

RULES = {  # name -> module
    "none": "evolora_core.ecology.rules.none",
    "reinforce": "evolora_core.ecology.rules.reinforce",
    "search": "evolora_core.ecology.rules.search",
    "grpo": "evolora_core.ecology.rules.grpo",
    "hebbian": "evolora_core.ecology.rules.hebbian",
    "es": "evolora_core.ecology.rules.es",
    "gold": "evolora_core.ecology.rules.gold",
}


def rule(name: str) -> Rule:
    """The rule of a name. ConfigError: there is none."""
    if name not in RULES:
        raise ConfigError(f"plasticity.rule: '{name}' is none of {', '.join(RULES)}")
    found: Rule = import_module(RULES[name]).RULE
    return found


__all__ = ["RULES", "Rule", "rule"]
