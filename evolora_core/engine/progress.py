"""How long loops say how far they are."""

import logging
from typing import Final, Protocol

WAITS: Final = 25  # a log level above INFO: why nothing goes on, and so why there is no progress to show
logging.addLevelName(WAITS, "WAITS")


class Progress(Protocol):
    """Called now and then with what is done, of what total, and a few words to show."""

    def __call__(self, done: float, total: float, text: str = "", /) -> None: ...


def part_of(progress: Progress, before: float, share: float, total: float) -> Progress:
    """Progress of a part, which begins at `before` and is `share` of the whole, as progress of the whole."""

    def part(done: float, of: float, text: str = "", /) -> None:
        progress(before + share * done / of, total, text)

    return part


def silent(done: float, total: float, text: str = "", /) -> None:
    """The progress of what nobody watches."""
