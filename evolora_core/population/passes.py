"""Rows of a batch in passes through the model that fit the processor's cache."""

import numpy as np


def passes(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Row numbers of each pass, ascending within it: rows of like length, about `tokens` tokens together.

    A longer row goes alone.
    """
    order = np.argsort(lengths, kind="stable")
    number = (np.cumsum(lengths[order]) - 1) // tokens
    return [np.sort(part) for part in np.split(order, np.flatnonzero(np.diff(number)) + 1)]
