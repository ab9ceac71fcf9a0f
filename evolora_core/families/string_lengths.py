"""`string.lengths`: `string.sort` at lengths that nobody practises: 6, 7 or 10 small letters.

A family near to one that is learned, for suites that ask whether what was learned carries over. It was sealed until
the suite `ood` ran; the nano host answers none of it.

Target: the letters in any order, as a string or a list of letters. The score is the fraction of positions that are
right.
"""

from dataclasses import replace
from functools import partial

from evolora_core.families import string_sort

FAMILY = replace(
    string_sort.FAMILY,
    name="string.lengths",
    draw=partial(string_sort.draw, lengths={"short": 6, "medium": 7, "long": 10}),
)
