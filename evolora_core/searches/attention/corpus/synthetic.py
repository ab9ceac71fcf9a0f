"""Texts that are drawn: associative recall, selective copying, and a Markov source whose entropy is known.

They tell kinds of attention apart for which text alone would need many more steps. The prefix of a held-out text ends
where the next token can be known. Training rows and held-out texts come from streams of different roles; `secret` is
part of the second one's key, so that the key cannot be guessed from the seed alone.

Sources: multi-query associative recall, Arora et al. 2023, "Zoology"; selective copying, Poli et al. 2024, "Mechanistic
design and scaling of hybrid architectures".
"""

from dataclasses import dataclass

import numpy as np
import torch

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.corpus.alphabet import BLANK, KEYS, MARK, VALUES
from evolora_core.searches.attention.corpus.base import Made

SYMBOLS = 8  # of the Markov source
SHORTEST = 8  # tokens: the least context in which the tasks make sense


def stream_of(kind: str, seed: int, *, held_out: bool, secret: str = "") -> np.random.Generator:
    """The stream of one kind's training rows, or of its held-out texts."""
    return stream(seed, 0, 0, "held-out" if held_out else "train", kind, secret if held_out else "")


def recall(context: int, count: int, random: np.random.Generator) -> Made:
    """Pairs of a key and its value, which stays the same within a row: k3 v7 k1 v2 k3 v7 …

    A row knows a sixteenth as many keys as it has tokens (2 at least, all at most). A prefix ends at a key that was
    there before. With so few keys a loss falls by degrees: one that only knows which values a row has pays the
    logarithm of their number, 1.4 of 2.6 nats at 64 tokens.
    """
    pairs, known = context // 2 + 1, min(len(KEYS), max(2, context // 16))
    keys = _distinct(len(KEYS), known, count, random)  # [count, known]
    values = random.integers(0, len(VALUES), size=(count, known))
    asked = random.integers(0, known, size=(count, pairs))  # which of its keys a row names
    rows = np.empty((count, 2 * pairs), dtype=np.int64)
    rows[:, 0::2] = KEYS.start + np.take_along_axis(keys, asked, axis=1)
    rows[:, 1::2] = VALUES.start + np.take_along_axis(values, asked, axis=1)
    seen = np.zeros((count, pairs), dtype=bool)  # named before
    for key in range(known):
        here = asked == key
        seen |= here & (here.cumsum(axis=1) > 1)
    seen[:, context // 2 + context % 2 :] = False  # its value lies behind the end of the row
    seen[~seen.any(axis=1), 0] = True  # a row that never repeats a key asks for its first value, which is a guess
    return _made(rows[:, : context + 1], 2 * _one_of(seen, random) + 1)


def copying(context: int, count: int, random: np.random.Generator) -> Made:
    """Symbols among blanks, a mark, and the symbols again without the blanks.

    A quarter of the context is symbols. A prefix ends at the mark or within the copy.
    """
    symbols = context // 4
    before = context - symbols  # tokens before the mark
    places = np.sort(_distinct(before, symbols, count, random), axis=1)
    drawn = VALUES.start + random.integers(0, len(VALUES), size=(count, symbols))
    rows = np.full((count, context + 1), BLANK, dtype=np.int64)
    np.put_along_axis(rows, places, drawn, axis=1)
    rows[:, before] = MARK
    rows[:, before + 1 :] = drawn
    return _made(rows, before + 1 + random.permutation(np.arange(count) % symbols))


@dataclass(frozen=True)
class MarkovSource:
    """A source of `SYMBOLS` symbols, each drawn given the two before it.

    table  float64 `[S, S, S]`: probability of the third symbol after the first and the second
    """

    table: np.ndarray

    @classmethod
    def drawn(cls, seed: int, concentration: float = 0.3) -> "MarkovSource":
        """The source of a seed: each row of its table from a Dirichlet distribution."""
        random = stream(seed, 0, 0, "markov")
        return cls(random.dirichlet(np.full(SYMBOLS, concentration), size=(SYMBOLS, SYMBOLS)))

    def stationary(self) -> np.ndarray:
        """float64 `[S, S]`: how often each pair of symbols stands in an endless text."""
        size = len(self.table)
        moves = np.zeros((size, size, size, size))  # from the pair (a, b) to the pair (b, c)
        for second in range(size):
            moves[:, second, second, :] = self.table[:, second, :]
        pairs = size * size
        system = np.vstack([moves.reshape(pairs, pairs).T - np.eye(pairs), np.ones(pairs)])
        shares = np.linalg.lstsq(system, np.append(np.zeros(pairs), 1.0), rcond=None)[0]
        result: np.ndarray = np.clip(shares, 0.0, None).reshape(size, size)
        return result

    def draw(self, context: int, count: int, random: np.random.Generator) -> Made:
        """Rows that begin in the stationary state. A prefix has two tokens at least."""
        rows = np.empty((count, context + 1), dtype=np.int64)
        start = self.stationary().ravel()
        pair = random.choice(len(start), size=count, p=start / start.sum())
        rows[:, 0], rows[:, 1] = np.divmod(pair, SYMBOLS)
        below = self.table.cumsum(axis=2)
        for place in range(2, context + 1):
            level = below[rows[:, place - 2], rows[:, place - 1]] / below[rows[:, place - 2], rows[:, place - 1], -1:]
            rows[:, place] = (random.random(count)[:, None] >= level).sum(axis=1)
        return _made(rows + VALUES.start, 2 + random.permutation(np.arange(count) % (context - 1)))


def _distinct(among: int, number: int, count: int, random: np.random.Generator) -> np.ndarray:
    """int64 `[count, number]`: in each row different numbers below `among`, all equally likely."""
    result: np.ndarray = random.random((count, among)).argsort(axis=1)[:, :number]
    return result


def _one_of(allowed: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """int64 `[N]`: one of the places of each row of bool `[N, places]` that are allowed."""
    result: np.ndarray = np.where(allowed, random.random(allowed.shape), -1.0).argmax(axis=1)
    return result


def _made(rows: np.ndarray, lengths: np.ndarray) -> Made:
    return Made(torch.from_numpy(np.ascontiguousarray(rows)), torch.from_numpy(lengths.astype(np.int64)))
