"""Task families: what an item is, its gold answer, and how free text is graded. One file a family."""

from difflib import get_close_matches

from evolora_core.errors import ConfigError
from evolora_core.families import (
    code_format,
    json_repair,
    logic_bool,
    math,
    math_multi_step,
    math_sequence,
    regex_debugging,
    regex_explanation,
    regex_mutation_effect,
    regex_recognition,
    regex_refactoring,
    regex_synthesis,
    string_distinct,
    string_repeats,
    string_reverse,
    string_sort,
    word_count,
    word_tokens,
)
from evolora_core.families.base import Family, Grade, Item

FAMILIES: dict[str, Family] = {
    module.FAMILY.name: module.FAMILY
    for module in (
        math,
        math_sequence,
        math_multi_step,
        string_sort,
        string_distinct,
        string_repeats,
        string_reverse,
        word_count,
        word_tokens,
        json_repair,
        logic_bool,
        code_format,
        regex_synthesis,
        regex_recognition,
        regex_explanation,
        regex_debugging,
        regex_refactoring,
        regex_mutation_effect,
    )
}
ALIASES = {"regex": "regex.synthesis"}


def get(name: str) -> Family:
    """The family of that name or alias. ConfigError names the nearest one."""
    family = FAMILIES.get(ALIASES.get(name, name))
    if family is None:
        near = get_close_matches(name, [*FAMILIES, *ALIASES], n=1, cutoff=0.5)
        mend = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(FAMILIES)}"
        raise ConfigError(f"unknown family '{name}': {mend}")
    return family


def grade(item: Item, answer: str) -> Grade:
    """Grade any text as the answer to an item."""
    return get(item.family).grade(item, answer)


def gold(item: Item) -> str:
    """The canonical answer text of an item."""
    return get(item.family).gold(item)


__all__ = ["ALIASES", "FAMILIES", "Family", "Grade", "Item", "get", "gold", "grade"]
