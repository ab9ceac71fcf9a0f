"""Verifiers shared by families whose answers are of one type, and the checks of targets that come from files."""

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from evolora_core.language.families.answers import extract_boolean
from evolora_core.language.families.base import CORRECT, NO_ANSWER, Grade, Item, wrong
from evolora_core.language.families.numbers import extract_number

LARGEST_EXPONENT = 1500  # of ten: beyond, a few characters stand for more digits than a memory holds
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


def number_of(target: Any) -> Decimal | None:
    """A numeric target exactly (162.0 is 162); figures in a string are read too. None for anything else."""
    if isinstance(target, bool) or not isinstance(target, int | float | str):
        return None
    try:
        value = Decimal(str(target).strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) <= LARGEST_EXPONENT else None


def boolean_of(target: Any) -> bool | None:
    """A boolean target; true/false/yes/no in a string are read too. None for anything else."""
    if isinstance(target, str):
        return _BOOLEANS.get(target.strip().lower())
    return target if isinstance(target, bool) else None


def number_text(target: Any) -> str:
    """A number as answered: integers without a decimal point."""
    value = number_of(target)
    if value is None:
        raise ValueError(f"{target!r} is no number")
    return str(int(value)) if value == value.to_integral_value() else format(value, "f")


def verify_number(item: Item, answer: str) -> Grade:
    """Exact for integers; a target with decimals allows for rounding in its last place."""
    found, target = extract_number(answer), number_of(item.target)
    if found is None or target is None:
        return NO_ANSWER
    tolerance = Decimal(0)
    written = target if isinstance(item.target, str) else target.normalize()
    exponent = written.as_tuple().exponent
    if isinstance(exponent, int) and exponent < 0:
        # Six digits behind the first one: more are rounding of the arithmetic that made the target.
        tolerance = Decimal((0, (5,), max(exponent, min(-6, target.adjusted() - 6)) - 1))
    return CORRECT if abs(found - target) <= tolerance else wrong()


def verify_boolean(item: Item, answer: str) -> Grade:
    """True/yes against false/no."""
    found = extract_boolean(answer)
    if found is None:
        return NO_ANSWER
    return CORRECT if found == boolean_of(item.target) else wrong()


def verify_sequence(found: Sequence[Any], expected: Sequence[Any], same: Callable[[Any, Any], bool]) -> Grade:
    """Correct where all positions agree; the score is the fraction that do (of the longer one's length)."""
    hits = sum(map(same, found, expected))
    longest = max(len(found), len(expected))
    return CORRECT if hits == longest else wrong(hits / longest)


def number_complaint(target: Any) -> str | None:
    """What is wrong with a target that should be a number."""
    return None if number_of(target) is not None else "must be a number"


def boolean_complaint(target: Any) -> str | None:
    """What is wrong with a target that should be a boolean."""
    return None if boolean_of(target) is not None else "must be true or false"
