"""`string.lengths`: `string.sort` at lengths that nobody practises: 6, 7 or 10 small letters.

A family near to one that is learned, for suites that ask whether what was learned carries over. It was written after
all settings were found, and no arm was evaluated on it before the suite `ood` was frozen.

Target: the letters in any order, as a string or a list of letters. The score is the fraction of positions that are
right.
"""

from dataclasses import replace

import numpy as np

from evolora_core.families import string_sort

_LETTERS = {"short": 6, "medium": 7, "long": 10}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, str]:
    """(prompt, target)."""
    letters = [chr(97 + code) for code in rng.integers(26, size=_LETTERS[depth]).tolist()]
    return f"Sort the letters: {' '.join(letters)}", "".join(letters)


FAMILY = replace(string_sort.FAMILY, name="string.lengths", draw=draw)
