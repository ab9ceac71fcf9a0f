"""Matching with patterns that a model wrote, within bounds of memory and time: a hostile one cannot hang us.

A pattern has to match the whole string.
"""

from collections.abc import Sequence

from evolora_core.foreign.files import Unfit
from evolora_core.foreign.patterns import compile_pattern, full_matches
from evolora_core.language.families.base import CORRECT, NO_ANSWER, Grade, wrong

TIME_LIMIT = 0.2  # seconds for all cases of one answer; ordinary patterns take microseconds
MALFORMED = Grade(0.0, False, "malformed")
TIMEOUT = Grade(0.0, False, "timeout")


def grade_pattern(pattern: str | None, cases: Sequence[tuple[str, bool]]) -> Grade:
    """Correct where every case (string, should match) comes out right; the score is the fraction that does."""
    if pattern is None:
        return NO_ANSWER
    try:
        matched = full_matches(compile_pattern(pattern), [text for text, _ in cases], TIME_LIMIT)
    except Unfit:
        return MALFORMED
    except TimeoutError:
        return TIMEOUT
    hits = sum(found == wanted for found, (_, wanted) in zip(matched, cases, strict=True))
    return CORRECT if hits == len(cases) else wrong(hits / len(cases))
