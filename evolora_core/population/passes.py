"""Rows in passes through the model: of like length, so that little is padding, and few enough to stay in cache."""

import numpy as np
import torch

CPU_TOKENS = 2048  # of one pass: its activations stay in the processor's cache
ACCELERATOR_TOKENS = 16384  # keeps the device busy, and a backward pass within its memory


def passes(lengths: np.ndarray, device: torch.device) -> list[np.ndarray]:
    """Row numbers of each pass, ascending within it; passes go by length. A very long row goes alone."""
    tokens = CPU_TOKENS if device.type == "cpu" else ACCELERATOR_TOKENS
    order = np.argsort(lengths, kind="stable")
    number = (np.cumsum(lengths[order]) - 1) // tokens
    return [np.sort(part) for part in np.split(order, np.flatnonzero(np.diff(number)) + 1)]
