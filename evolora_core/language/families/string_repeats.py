"""`string.repeats`: `string.sort` with many repeats: 5, 8 or 12 letters, of which at most 3, 5 or 7 are different.

A family near to one that is learned, for suites that ask whether what was learned carries over. The bare host
is right half as often as in `string.sort` or less.

Target: the letters in any order, as a string or a list of letters. The score is the fraction of positions that are
right.
"""

from dataclasses import replace

import numpy as np

from evolora_core.language.families import string_sort


def draw(rng: np.random.Generator, depth: str) -> tuple[str, str]:
    """(prompt, target)."""
    length = string_sort.LENGTHS[depth]
    pool = rng.choice(26, size=length // 2 + 1, replace=False)
    return string_sort.question([chr(97 + code) for code in rng.choice(pool, size=length).tolist()])


FAMILY = replace(string_sort.FAMILY, name="string.repeats", draw=draw)
