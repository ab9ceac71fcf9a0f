"""Stop strings: text that ends an answer, and is not part of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evolora_core.language.hosts.host import Host

if TYPE_CHECKING:
    from torch import Tensor


def stop_at(host: Host, strings: Sequence[str]) -> "Callable[[Tensor], Tensor] | None":
    """Which rows of new tokens `[rows, so far]` end in one of the strings, for `generate`; None if there are none.

    A string may begin and end within a token: transformers' criteria know the overlaps of the whole vocabulary.
    """
    if not strings:
        return None
    from transformers import StopStringCriteria

    criteria = StopStringCriteria(host.tokenizer, list(strings))
    return lambda tokens: criteria(tokens, None)


def endings(host: Host, strings: Sequence[str]) -> list[str]:
    """The strings that end an answer: those that are asked for, and the beginning of a next question."""
    return [*strings, *filter(None, [host.template.ending])]


def until(text: str, strings: Sequence[str]) -> str:
    """The text up to the first of the strings."""
    return text[: min((place for string in strings if (place := text.find(string)) >= 0), default=len(text))]
