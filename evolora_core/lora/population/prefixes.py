"""Beginnings that prompts of one adapter share: the template and a family's instruction, computed once for all."""

import numpy as np

WORTH = 0.2  # share of the prompts' tokens that must be saved before a second pass through the model pays


def shared_prefixes(slots: np.ndarray, prompts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(group, prefix) of each row of left-padded `prompts` `[rows, width]`: rows of a group have the same slot and the
    same first `prefix` tokens, and at least one more. All zero where sharing does not pay.

    In the order of slot and tokens, rows that share a beginning stand together. They are cut into groups wherever
    neighbours share fewer tokens than a threshold, the one that saves most.
    """
    rows, width = prompts.shape
    nothing = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    if rows < 2:
        return nothing
    column = np.arange(width)
    left = np.take_along_axis(prompts, (column + (width - lengths)[:, None]) % width, axis=1)  # the padding goes right
    order = np.lexsort([*left.T[::-1], slots])
    above, below = order[:-1], order[1:]
    common = np.cumprod(left[above] == left[below], axis=1).sum(axis=1)
    common = np.minimum(common, np.minimum(lengths[above], lengths[below]) - 1)
    common[slots[above] != slots[below]] = 0

    def groups(threshold: int) -> tuple[np.ndarray, np.ndarray]:
        """Group numbers `[rows]` in the sorted order, and the tokens that each group shares."""
        numbers = np.concatenate([[0], np.cumsum(common < threshold)])
        shares = np.full(numbers[-1] + 1, width)
        inside = numbers[1:] == numbers[:-1]
        np.minimum.at(shares, numbers[1:][inside], common[inside])
        return numbers, np.where(shares == width, 0, shares)  # a row alone has nothing to share

    def saved(threshold: int) -> int:
        numbers, shares = groups(threshold)
        return int(((np.bincount(numbers) - 1) * shares).sum())

    thresholds = np.unique(common[common > 0]).tolist()
    best = max(thresholds, key=saved, default=0)
    if not best or saved(best) < WORTH * lengths.sum():
        return nothing
    numbers, shares = groups(best)
    group, prefix = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    group[order], prefix[order] = numbers, shares[numbers]
    return group, prefix
