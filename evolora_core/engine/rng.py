"""Random streams, each derived from (seed, generation, slot, role): no global state, nothing to checkpoint.

Two kinds: `stream` is a NumPy generator for code that draws here and there; `uniforms` gives whole matrices of numbers,
one row a stream, without a Python loop (sampling of many answers at once).
"""

from hashlib import blake2b

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: the increment of SplitMix64


def key(seed: int, generation: int, slot: int, role: str, *more: int | str) -> int:
    """The 64-bit key of one stream. Equal arguments give equal keys on every machine and Python version."""
    text = "\x1f".join([str(seed), str(generation), str(slot), role, *map(str, more)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(seed: int, generation: int, slot: int, role: str, *more: int | str) -> np.random.Generator:
    """A NumPy generator (Philox) of its own for one purpose."""
    return np.random.Generator(np.random.Philox(key=key(seed, generation, slot, role, *more)))


def row_keys(base: int, rows: int) -> np.ndarray:
    """Keys `[rows]` (uint64) of the streams 0 … rows-1 below one base key."""
    return _mix(np.uint64(base) ^ _mix(np.arange(1, rows + 1, dtype=np.uint64) * _GOLDEN))


def uniforms(keys: np.ndarray, steps: int) -> np.ndarray:
    """Uniform numbers in [0, 1), shape `[rows, steps]` (float64): row i is the SplitMix64 sequence of `keys[i]`.

    A row's numbers depend on its key alone, never on the rows beside it, so answers do not change with the batching.
    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    with np.errstate(over="ignore"):
        counter = keys.astype(np.uint64)[:, None] + np.arange(1, steps + 1, dtype=np.uint64)[None, :] * _GOLDEN
    return (_mix(counter) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64, elementwise on uint64."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        result: np.ndarray = z ^ (z >> np.uint64(31))
        return result
