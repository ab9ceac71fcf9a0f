"""Regular expressions of others: bounded before they are compiled, stopped while they match.

The engine `regex` writes a repeated part out, `(?:a{99}){99}` as 9,801 nodes, and `(?:(?:a*)*)*` doubled at each level:
two hundred characters can fill the memory of any machine. So what a pattern would become is bounded first, from above,
by its text alone. The standard engine `re` has no such trouble, and no time limit.
"""

import re
import time
from collections.abc import Sequence
from functools import lru_cache

import regex

from evolora_core.foreign.files import Unfit

LONGEST = 200  # characters
MOST_NODES = 10_000  # of a compiled pattern, about 3 MB
# Calls of groups, which may recurse at will: no part of Python's own syntax.
_CALL = re.compile(r"\(\?(?:R|&|P>|[+-]?\d)")
_VERBOSE = re.compile(r"\(\?[a-zA-Z0-9]*x|\(\?#")
# A quantifier, and the character that it follows.
_QUANTIFIER = re.compile(r"(?s)(?<=(.))(?:([*+?])|\{([0-9]*)(,?))")


def expanded(pattern: str) -> int:
    """At most how many nodes a pattern becomes when compiled: its length, times the repeats of everything that may be
    a group, times the largest of the others (a character or a class is repeated once; repeats do not nest in it).
    """
    nested, single = 1, 1
    every = _VERBOSE.search(pattern) is not None  # white space and comments may stand before a quantifier
    for found in _QUANTIFIER.finditer(pattern):
        before, mark, least, comma = found.groups()
        if mark == "?" or (mark is None and not least and not comma):
            continue
        copies = max(2, int(least[:9]) + 1) if least else 2
        if every or before in ")}+*?":
            nested = min(nested * copies, 10**9)
        else:
            single = max(single, copies)
    return len(pattern) * nested * single


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, longest: int = LONGEST) -> "regex.Pattern[str]":
    """The compiled pattern. Unfit if it is too long, calls itself, would grow beyond bounds or is none."""
    if len(pattern) > longest:
        raise Unfit(f"longer than {longest} characters")
    if _CALL.search(pattern):
        raise Unfit("calls its own groups")
    if expanded(pattern) > MOST_NODES:
        raise Unfit("its repeats would fill the memory")
    try:
        return regex.compile(pattern, cache_pattern=False)
    # The engine raises these too for patterns that it does not understand.
    except (regex.error, RecursionError, OverflowError, ValueError, MemoryError, KeyError, IndexError) as error:
        raise Unfit(f"no regular expression ({error})") from None
    except (TypeError, AttributeError) as error:
        raise Unfit(f"no regular expression ({error})") from None


def full_matches(machine: "regex.Pattern[str]", texts: Sequence[str], seconds: float) -> list[bool]:
    """Whether the pattern matches all of each text. TimeoutError after `seconds` for all texts together, Unfit where
    the engine gives up.
    """
    deadline = time.monotonic() + seconds
    found = []
    try:
        for text in texts:
            found.append(machine.fullmatch(text, timeout=max(deadline - time.monotonic(), 1e-3)) is not None)
    except (RecursionError, MemoryError, regex.error) as error:
        raise Unfit(f"cannot be matched ({error})") from None
    return found
