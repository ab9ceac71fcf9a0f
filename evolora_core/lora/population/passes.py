"""Rows in passes through the model: of like length, so that little is padding, and few enough to stay in cache."""

import logging
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch

from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.layers import decoder_layers

log = logging.getLogger(__name__)

CPU_TOKENS = 2048  # of one pass: its activations stay in the processor's cache
ACCELERATOR_TOKENS = 16384  # keeps the device busy, and a backward pass within its memory
WORTHWHILE = 1 / 8  # of these: fewer at once cost more than computing activations twice

Result = TypeVar("Result")


def pass_tokens(host: Host) -> int:
    """How many tokens go through the host at once."""
    usual = CPU_TOKENS if host.model.device.type == "cpu" else ACCELERATOR_TOKENS
    return max(1, int(usual * host.memory_plan.share))


def passes(lengths: np.ndarray, slots: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Row numbers of each pass of about so many tokens, ascending; together every row once. A very long row goes alone.

    Adapters are fastest where all slots of a pass have equally many rows. So first come the shortest rows of all slots,
    then the next ones of those that have more, and so on; what is too little for passes of its own goes by length.
    """
    number, counts = np.unique(slots, return_inverse=True, return_counts=True)[1:]
    order = np.lexsort((lengths, number))
    place = np.empty_like(order)  # of a row among those of its slot
    place[order] = np.arange(len(order)) - (np.cumsum(counts) - counts)[number[order]]
    level = np.searchsorted(np.unique(counts), place, side="right")
    found, rest = [], []
    for one in np.unique(level):
        rows = np.flatnonzero(level == one)
        if 2 * lengths[rows].sum() < tokens:
            rest.append(rows)
            continue
        places = place[rows] - place[rows].min()
        each = max(1, round(tokens * (places.max() + 1) / lengths[rows].sum()))  # places in a pass
        for chunk in range(places.max() // each + 1):
            found += _cut(rows[places // each == chunk], lengths, 1.5 * tokens)
    if rest:
        found += _cut(np.concatenate(rest), lengths, tokens)
    return [np.sort(part) for part in found]


def _cut(rows: np.ndarray, lengths: np.ndarray, tokens: float) -> list[np.ndarray]:
    """Split the rows, sorted by length, into parts of at most about `tokens` tokens."""
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff((np.cumsum(lengths[rows]) - 1) // tokens)) + 1)


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocator had nothing left: CUDA's has an error of its own, the CPU's says so in words."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def make_room(host: Host, lengths: np.ndarray) -> bool:
    """Reduce memory use after training over these rows ran out of memory. False if nothing more can be done.

    First half as many tokens go through at once, which costs little until they no longer keep the device busy; then
    activations are computed again in the backward pass, one forward pass more; then half as many again.
    """
    long = pass_tokens(host) > int(lengths.max())
    last = host.memory_plan.recompute or not decoder_layers(host.model)  # nothing but smaller passes is left then
    if long and (host.memory_plan.share > WORTHWHILE or last):
        host.memory_plan.share /= 2
        log.warning("out of memory: going on with %d tokens in a pass", pass_tokens(host))
        return True
    if not last:
        host.memory_plan.recompute = True
        log.warning("out of memory: going on with activations computed twice")
        return True
    return False


def in_room(host: Host, lengths: np.ndarray, work: Callable[[], Result]) -> Result:
    """What `work` gives, which goes through rows of these lengths forward and backward. When memory runs out it is done
    again with less of it (`make_room`).
    """
    while True:
        try:
            return work()
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error) or not make_room(host, lengths):
                raise
