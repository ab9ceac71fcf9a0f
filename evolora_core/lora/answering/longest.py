"""How long the right answers to a user's task are, and warnings where no answer can be one of them."""

import logging
from collections.abc import Iterable

from evolora_core.foreign.text import one_value
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.language.tasks.base import Verifier
from evolora_core.language.tasks.own import gold_of
from evolora_core.lora.answering.stopping import until

log = logging.getLogger(__name__)


def longest_right_answer(
    host: Host, task: str, items: Iterable[Item], verifier: Verifier | None, decoding: DecodingConfig
) -> int | None:
    """Tokens of the longest right answer to items of a task; None where none of them has one. Warns if it has more
    tokens than an answer may have, and of right answers that contain a stop string. verifier: that of rows.
    """
    gold = [text for item in items if (text := gold_of(item, verifier)) is not None]
    longest = max((len(ids) - 1 for ids in host.encode_answers(gold)), default=None)  # the ending counts in no cap
    cap = decoding.max_new_tokens
    if longest is not None and longest > cap:
        log.warning(
            "%s: its longest right answer has %d tokens, and answers end after %d, so that it can never be given; "
            "raise decoding.max_new_tokens", task, longest, cap,
        )  # fmt: skip
    if cut := [text for text in gold if until(text, decoding.stop_strings).strip() != text.strip()]:
        log.warning(
            "%s: %d of its %d right answers have a stop string within, such as %s, and answers are cut there, so that "
            "they can never be given; change decoding.stop_strings", task, len(cut), len(gold), one_value(cut[0], 40),
        )  # fmt: skip
    return longest
