"""Arms: conditions that are another with some settings changed, and the trials by which each arm is tuned."""

from typing import Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from evolora_core.config.strict import Changes, Strict, explain_fault

Section = TypeVar("Section", bound=BaseModel)


class ArmConfig(Strict):
    """A condition that is another one with some settings changed."""

    like: Literal["single", "ecology", "sft", "es", "grpo"] = Field(
        description="condition whose settings this one starts from"
    )
    budget: float = Field(
        1.0,
        gt=0,
        le=1000,
        description="FLOPs that it may spend, relative to the condition `ecology` of the same seed",
    )
    changes: Changes = Field(
        {},
        description="settings that differ from the section `ecology` (for `like: ecology` and `like: single`), "
        "`sft`, `es` or `grpo`, nested as there",
    )


def changed(section: Section, changes: Changes, where: str) -> Section:
    """A section with some settings changed. ValueError names the place and the fault."""
    try:
        return type(section).model_validate(_merged(section.model_dump(), changes))
    except ValidationError as error:
        raise ValueError(f"{where}: {explain_fault(error, type(section))}") from None


def leaves(changes: Changes, above: str = "") -> set[str]:
    """The settings that nested changes replace, with dots: `plasticity.learning_rate`."""
    found: set[str] = set()
    for key, change in changes.items():
        found |= leaves(change, f"{above}{key}.") if isinstance(change, dict) else {above + key}
    return found


def _merged(values: Changes, changes: Changes) -> Changes:
    """Nested settings with some of them replaced; new keys go in too, for the validation to find."""
    merged = dict(values)
    for key, change in changes.items():
        inner = isinstance(change, dict) and isinstance(values.get(key), dict)
        merged[key] = _merged(values[key], change) if inner else change
    return merged
