"""Which training items a rival can be asked: those that fit the host's context with an answer."""

from collections.abc import Sequence

import numpy as np

from evolora_core.errors import DataError
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.outcome import Decoding


def fitting_items(host: Host, items: Sequence[Item], decoding: Decoding, section: str) -> tuple[list[Item], np.ndarray]:
    """The items whose prompt and token cap fit the host's context together, and the tokens of their prompts `[items]`.
    DataError, which names the `section` of the suite, where none does.
    """
    lengths = np.array([len(ids) for ids in host.encode_prompts([item.prompt for item in items])], dtype=np.int64)
    fits = lengths + decoding.max_new_tokens <= host.max_context
    if not fits.any():
        raise DataError(
            f"{section}: none of {len(items)} training items fits the context of {host.name} with its answer; use "
            "shorter depths, or lower decoding.max_new_tokens"
        )
    return [item for item, fit in zip(items, fits, strict=True) if fit], lengths[fits]
