"""How long the right answers to a user's task are, and a warning where no answer can be that long."""

import logging
from collections.abc import Iterable

from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.language.tasks.base import Verifier
from evolora_core.language.tasks.own import gold_of

log = logging.getLogger(__name__)


def longest_right_answer(
    host: Host, task: str, items: Iterable[Item], verifier: Verifier | None, cap: int
) -> int | None:
    """Tokens of the longest right answer to items of a task; None where none of them has one. Warns if it has more than
    the `cap` tokens that an answer may have. verifier: that of rows.
    """
    gold = [text for item in items if (text := gold_of(item, verifier)) is not None]
    longest = max((len(ids) - 1 for ids in host.encode_answers(gold)), default=None)  # the ending counts in no cap
    if longest is not None and longest > cap:
        log.warning(
            "%s: its longest right answer has %d tokens, and answers end after %d, so that it can never be given; "
            "raise decoding.max_new_tokens", task, longest, cap,
        )  # fmt: skip
    return longest
