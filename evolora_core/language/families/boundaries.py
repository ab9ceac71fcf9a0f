"""Strings on both sides of each boundary of a pattern: a count, a kind of character, a text, an option, a number.

Near misses by chance seldom tell a pattern from one that allows a little more, and a search for right answers finds
what is let through. These strings depend on the pattern alone.
"""

from hashlib import blake2b

import numpy as np

from evolora_core.language.families.patterns import (
    CLASSES,
    SEPARATORS,
    Choice,
    Literal,
    Run,
    Segment,
    Segments,
    matches,
    pattern_of,
)

_KINDS = ("7", "c", "q", "C", "Q", "_", "-")  # one character of each kind that a class may hold or leave out


def boundary_cases(segments: Segments) -> dict[str, bool]:
    """Strings, and whether the pattern matches them: one segment at a boundary or just beyond, the others sampled."""
    digest = blake2b(pattern_of(segments).encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(digest))
    texts = []
    for at, segment in enumerate(segments):
        for piece in dict.fromkeys(_pieces(segment)):
            parts = [other.sample(rng) for other in segments]
            texts.append("".join([*parts[:at], piece, *parts[at + 1 :]]))
    return {text: matches(segments, text) for text in texts}


def _pieces(segment: Segment) -> list[str]:
    """What stands in the place of a segment: some of it right, most of it wrong."""
    if isinstance(segment, Run):
        return _runs(segment)
    if isinstance(segment, Literal):
        other = next(mark for mark in SEPARATORS if mark != segment.text)
        return ["", segment.text[:-1], segment.text.swapcase(), segment.text * 2, other, *_other_words(segment.text)]
    if isinstance(segment, Choice):
        changed = [*_other_words(segment.first), *_other_words(segment.second)]
        return [segment.first, segment.second, "", "xyz", *changed]
    low, high = map(int, segment.bounds.split("-"))
    numbers = {low, high, low - 1, high + 1, 0, 9, 10, 19, 20, 29, 99}
    return [f"{number:02d}" for number in sorted(numbers) if 0 <= number <= 99] + [f"{high % 10}"]


def _other_words(word: str) -> list[str]:
    """A word with each letter changed by turns, and with all of them: a class in place of letters takes these."""
    changed = ["k" if letter == "q" else "q" for letter in word]
    places = [at for at, letter in enumerate(word) if letter.isalpha()]
    return [word[:at] + changed[at] + word[at + 1 :] for at in places] + (["".join(changed)] if places else [])


def _runs(run: Run) -> list[str]:
    alphabet, longest = CLASSES[run.kind][1], run.high or 9
    counts = {run.low - 1, run.low, longest, longest + 1}
    # One character of another kind at the end: a class that is too wide, or another one.
    return [alphabet[-1] * count for count in sorted(counts)] + [alphabet[-1] * (run.low - 1) + mark for mark in _KINDS]
