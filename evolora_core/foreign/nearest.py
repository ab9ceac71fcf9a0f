"""The nearest known name, for error messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """The nearest known name, or an empty string where nothing is near."""
    return next(iter(get_close_matches(word[:100], list(known), n=1, cutoff=cutoff)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or an empty string where nothing is near."""
    near = nearest(word, known)
    return f" (did you mean {near!r}?)" if near else ""


def nearest_or_all(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or `there are x, y` where nothing is near."""
    names = list(known)
    near = nearest(word, names)
    return f"did you mean {near!r}?" if near else f"there are {', '.join(names)}"
