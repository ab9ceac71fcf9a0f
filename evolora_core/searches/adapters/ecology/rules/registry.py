"""Rules by name. A rule's module is imported when it is first asked for, and no other is."""

from importlib import import_module

from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.ecology.rules.names import RULES
from evolora_core.searches.adapters.ecology.run import Rule


def rule(name: str) -> Rule:
    """The rule of a name. ConfigError: there is none."""
    if name not in RULES:
        raise ConfigError(f"plasticity.rule: '{name}' is none of {', '.join(RULES)}")
    found: Rule = import_module(RULES[name]).RULE
    return found
