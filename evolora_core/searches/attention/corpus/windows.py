"""Keeps held-out texts apart from the training documents and from each other: no stretch of 32 tokens stands in both.

Whole documents are compared, at every offset: a text that stands in two documents is cut there at two offsets, and the
rows of the one may share no stretch with any single row of the other.

Windows are compared by a 64-bit polynomial hash. Two equal windows always have one hash, so nothing slips through; that
two different ones have (about 1e-7 for the default corpus) drops a text too many.
"""

from collections.abc import Iterable, Sequence

import numpy as np

WINDOW = 32  # tokens
_BASE = 0x9E3779B97F4A7C15


def window_hashes(tokens: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """uint64 `[length - window + 1]`: the hash of each window of `tokens [length]`; none where it is shorter than one.

    h(i) = sum_k B^(window - 1 - k) * (token(i + k) + 1) modulo 2^64, built up by Horner's rule for all windows at once.
    """
    places = max(len(tokens) - window + 1, 0)
    found = np.zeros(places, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for offset in range(window):
            found = found * np.uint64(_BASE) + tokens[offset : offset + places].astype(np.uint64) + np.uint64(1)
        found ^= found >> np.uint64(29)  # the low bits of a product know only the low bits of its factors
    return found


def apart(documents: Sequence[np.ndarray], train: Iterable[np.ndarray], width: int) -> np.ndarray:
    """bool `[N]`: which rows share no window with a training document, nor with what stands before them in these.

    documents  tokens `[length]` of each held-out document, in order. They are cut into N rows of `width` that do not
               overlap; what is left at the end of a document is no row, and is compared all the same
    train      tokens `[length]` of each training document

    In rows shorter than a window the whole row is the window.
    """
    window = min(WINDOW, width)
    hashes = [window_hashes(tokens, window) for tokens in documents]
    known, first = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]), return_index=True)
    if not len(known):
        return np.zeros(0, dtype=bool)
    trained = np.zeros(len(known), dtype=bool)
    begins = np.zeros(1 << 24, dtype=bool)  # with which 24 bits a hash of a held-out window begins: most others do not
    begins[known >> np.uint64(40)] = True
    for tokens in train:
        own = window_hashes(tokens, window)
        own = own[begins[own >> np.uint64(40)]]
        places = np.minimum(np.searchsorted(known, own), len(known) - 1)
        trained[places[known[places] == own]] = True
    fit, before = [], 0  # windows of the documents above
    for own in hashes:
        starts = np.arange(0, len(own) + window - width, width)  # of the rows, in windows of this document
        places = np.searchsorted(known, own[starts[:, None] + np.arange(width - window + 1)])
        fit.append(~(trained[places] | (first[places] < before + starts[:, None])).any(axis=1))
        before += len(own)
    return np.concatenate(fit)
