"""Rows in passes through the model: of like length, so that little is padding, and few enough to stay in cache."""

import logging

import numpy as np
import torch

from evolora_core.hosts import Host

log = logging.getLogger(__name__)

CPU_TOKENS = 2048  # of one pass: its activations stay in the processor's cache
ACCELERATOR_TOKENS = 16384  # keeps the device busy, and a backward pass within its memory


def pass_tokens(host: Host) -> int:
    """How many tokens go through the host at once."""
    usual = CPU_TOKENS if host.model.device.type == "cpu" else ACCELERATOR_TOKENS
    return max(1, int(usual * host.room.share))


def passes(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Row numbers of each pass of about so many tokens, ascending within it; passes go by length. A very long row goes
    alone.
    """
    order = np.argsort(lengths, kind="stable")
    number = (np.cumsum(lengths[order]) - 1) // tokens
    return [np.sort(part) for part in np.split(order, np.flatnonzero(np.diff(number)) + 1)]


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocator had nothing left: CUDA's has an error of its own, the CPU's says so in words."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def halve_passes(host: Host, lengths: np.ndarray) -> bool:
    """After running out of memory over these rows: take half as many tokens at once from now on. False if a pass is
    one row already.
    """
    if pass_tokens(host) <= int(lengths.max()):
        return False
    host.room.share /= 2
    log.warning("out of memory: going on with %d tokens in a pass", pass_tokens(host))
    return True
