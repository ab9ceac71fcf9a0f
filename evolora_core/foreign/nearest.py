"""The nearest known name, for error messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or an empty string where nothing is near."""
    near = get_close_matches(word[:100], list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def nearest_or_all(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or `there are x, y` where nothing is near."""
    names = list(known)
    near = get_close_matches(word[:60], names, n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
