"""Keeps held-out texts apart from the training rows and from each other: no stretch of 32 tokens stands in both.

Windows are compared by a 64-bit polynomial hash. Two equal windows always have one hash, so nothing slips through; that
two different ones have (about 1e-7 for the default corpus) drops a text too many.
"""

import numpy as np

WINDOW = 32  # tokens
_BASE = 0x9E3779B97F4A7C15


def window_hashes(rows: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """uint64 `[N, width - window + 1]`: the hash of each window of each row of `rows [N, width]`.

    h(i) = sum_k B^(window - 1 - k) * (token(i + k) + 1) modulo 2^64, built up by Horner's rule for all windows at once.
    """
    places = rows.shape[1] - window + 1
    found = np.zeros((len(rows), places), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for offset in range(window):
            found = found * np.uint64(_BASE) + rows[:, offset : offset + places].astype(np.uint64) + np.uint64(1)
        found ^= found >> np.uint64(29)  # the low bits of a product know only the low bits of its factors
    return found


def apart(texts: np.ndarray, train: np.ndarray) -> np.ndarray:
    """bool `[M]`: which of `texts [M, width]` share no window with any of `train [N, width]`, nor with a text above.

    In rows shorter than a window the whole row is the window.
    """
    window = min(WINDOW, texts.shape[1])
    hashes = window_hashes(texts, window)
    seen = np.isin(hashes, window_hashes(train, window)).any(axis=1) if len(train) else np.zeros(len(texts), bool)
    _, first, same = np.unique(hashes, return_index=True, return_inverse=True)
    owner = first // hashes.shape[1]  # the first text with this window
    repeated = owner[same].reshape(hashes.shape) != np.arange(len(texts))[:, None]
    result: np.ndarray = ~seen & ~repeated.any(axis=1)
    return result
