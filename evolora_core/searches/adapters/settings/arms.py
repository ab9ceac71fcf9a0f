"""Arms: conditions that are another with some settings changed, and the trials by which each arm is tuned."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from evolora_core.engine.strict import Changes, Strict, explain_fault
from evolora_core.searches.adapters.arms.kinds import KINDS

Section = TypeVar("Section", bound=BaseModel)


def _kind(name: str) -> str:
    """The name of a kind of arm for which something is made."""
    kinds = [own for own, kind in KINDS.items() if kind.section]
    if name not in kinds:
        raise ValueError(f"is no kind of condition; choose from {', '.join(kinds)}")
    return name


class ArmConfig(Strict):
    """A condition that is another one with some settings changed."""

    like: Annotated[str, AfterValidator(_kind)] = Field(description="condition whose settings this one starts from")
    budget: float = Field(
        1.0,
        gt=0,
        le=1000,
        description="FLOPs that it may spend, relative to the condition `budget_of` of the same seed",
    )
    changes: Changes = Field(
        {},
        description="settings that differ from the section of that condition, such as `sft` (`ecology` for "
        "`like: ecology` and `like: single`), nested as there",
    )


def changed(section: Section, changes: Changes, where: str) -> Section:
    """A section with some settings changed. ValueError names the place and the fault."""
    try:
        return type(section).model_validate(_merged(section.model_dump(), changes))
    except ValidationError as error:
        raise ValueError(f"{where}: {explain_fault(error, type(section))}") from None


def leaves(changes: Changes, above: str = "") -> Changes:
    """The settings that nested changes replace, by names with dots: `plasticity.learning_rate`."""
    found: Changes = {}
    for key, change in changes.items():
        found |= leaves(change, f"{above}{key}.") if isinstance(change, dict) else {above + key: change}
    return found


def _merged(values: Changes, changes: Changes) -> Changes:
    """Nested settings with some of them replaced; new keys go in too, for the validation to find."""
    merged = dict(values)
    for key, change in changes.items():
        inner = isinstance(change, dict) and isinstance(values.get(key), dict)
        merged[key] = _merged(values[key], change) if inner else change
    return merged
