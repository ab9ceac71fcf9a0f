"""Stop strings: text that ends an answer, and is not part of it."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from evolora_core.language.hosts.host import Host

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase, StopStringCriteria


def stop_at(host: Host, strings: Sequence[str]) -> "Callable[[Tensor], Tensor] | None":
    """Which rows of new tokens `[rows, so far]` end in one of the strings, for `generate`; None if there are none.

    A string may begin and end within a token: transformers' criteria know the overlaps of the whole vocabulary.
    """
    if not strings:
        return None
    criteria = _criteria(host.tokenizer, tuple(strings))
    return lambda tokens: criteria(tokens, None)


@lru_cache(maxsize=8)
def _criteria(tokenizer: "PreTrainedTokenizerBase", strings: tuple[str, ...]) -> "StopStringCriteria":
    """Looks through the whole vocabulary, which takes seconds; transformers' own cache misses, as its key is the
    vocabulary in an order that a tokenizer changes from call to call.
    """
    from transformers import StopStringCriteria

    return StopStringCriteria(tokenizer, list(strings))


def endings(host: Host, strings: Sequence[str]) -> list[str]:
    """The strings that end an answer: those that are asked for, and the beginning of a next question."""
    return [*strings, *filter(None, [host.template.ending])]


def spoken(host: Host, tokens: Sequence[int], text: str) -> tuple[int, ...]:
    """The tokens of an answer up to those that say `text`, without a stop string that ended it."""
    end = len(tokens)
    if len(host.decode(list(tokens))) > len(text):
        while end and len(host.decode(list(tokens[: end - 1]))) >= len(text):
            end -= 1
    return tuple(tokens[:end])


def until(text: str, strings: Sequence[str]) -> str:
    """The text up to the first of the strings."""
    return text[: min((place for string in strings if (place := text.find(string)) >= 0), default=len(text))]
