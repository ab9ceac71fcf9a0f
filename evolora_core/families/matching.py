"""Matching with patterns that a model wrote: the `regex` engine with a time limit, so that a hostile pattern cannot
hang us.

A pattern has to match the whole string.
"""

import re
import time
from collections.abc import Sequence
from functools import lru_cache

import regex

from evolora_core.families.base import CORRECT, NO_ANSWER, Grade, wrong

LONGEST_PATTERN = 200  # characters
TIME_LIMIT = 0.2  # seconds for all cases of one answer; ordinary patterns take microseconds
# Calls of groups, which may recurse at will: no part of Python's own syntax.
_CALL = re.compile(r"\(\?(?:R|&|P>|[+-]?\d)")
MALFORMED = Grade(0.0, False, "malformed")
TIMEOUT = Grade(0.0, False, "timeout")


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> "regex.Pattern[str] | None":
    """The compiled pattern; None if it is too long or no regular expression of Python's."""
    if len(pattern) > LONGEST_PATTERN or _CALL.search(pattern):
        return None
    try:
        return regex.compile(pattern, cache_pattern=False)
    except (regex.error, RecursionError, OverflowError, ValueError, MemoryError):
        return None


def grade_pattern(pattern: str | None, cases: Sequence[tuple[str, bool]]) -> Grade:
    """Correct where every case (string, should match) comes out right; the score is the fraction that does."""
    if pattern is None:
        return NO_ANSWER
    machine = compiled(pattern)
    if machine is None:
        return MALFORMED
    deadline = time.monotonic() + TIME_LIMIT
    hits = 0
    try:
        for text, should_match in cases:
            left = max(deadline - time.monotonic(), 1e-3)
            hits += (machine.fullmatch(text, timeout=left) is not None) == should_match
    except TimeoutError:
        return TIMEOUT
    except (RecursionError, MemoryError, regex.error):
        return MALFORMED
    return CORRECT if hits == len(cases) else wrong(hits / len(cases))
