"""The grammar of each framework. Whoever adds one enters it here."""

from collections.abc import Mapping
from types import MappingProxyType

from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.grammar import coefficient_dynamics, matrix_mixer, test_time_regression
from evolora_core.searches.attention.grammar.genes import Grammar

GRAMMARS: Mapping[str, Grammar] = MappingProxyType(
    {module.NAME: module.GRAMMAR for module in (coefficient_dynamics, test_time_regression, matrix_mixer)}
)


def get_grammar(framework: str) -> Grammar:
    """The grammar of the framework of that name. ConfigError names the nearest one."""
    return GRAMMARS[get_framework(framework).name]
