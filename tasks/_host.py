"""The host of a stage, which its process keeps for the next one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evolora_core.language.hosts.host import Host


def load_stage_host(wanted: Mapping[str, Any]) -> "Host":
    """The host of a stage; the last one used stays loaded, but what one stage found of its memory is not the next
    one's. Torch computes with the suite's threads from here on.
    """
    import torch

    from evolora_core.language.hosts.host import Room

    torch.set_num_threads(wanted["threads"])
    return replace(_load(wanted["word"], wanted["device"], wanted["dtype"]), room=Room())


@lru_cache(maxsize=1)
def _load(word: str, device: str, dtype: str) -> "Host":
    from evolora_core.language.hosts.host import load_host

    return load_host(word, device=device, dtype=dtype)
