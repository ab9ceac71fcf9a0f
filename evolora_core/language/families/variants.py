"""Near misses of strings and small changes of patterns: what regex items are made hard with."""

from dataclasses import replace

import numpy as np

from evolora_core.language.families.boundaries import boundary_cases
from evolora_core.language.families.patterns import (
    CLASSES,
    SEPARATORS,
    Bounded,
    Choice,
    Literal,
    Run,
    Segment,
    Segments,
    matches,
    sample,
)

_STRANGERS = "09azAZ-:_."  # one of each kind of character
_TRIES = 30


def near_miss(text: str, rng: np.random.Generator) -> str:
    """`text` with one character dropped, doubled, put in, changed in case or swapped for another kind."""
    kind, at, stranger = int(rng.integers(5)), int(rng.integers(len(text))), int(rng.integers(len(_STRANGERS)))
    before, here, after = text[:at], text[at], text[at + 1 :]
    if kind == 0 and len(text) > 1:
        return before + after
    if kind == 1:
        return before + here * 2 + after
    if kind == 2:
        return before + _STRANGERS[stranger] + here + after
    if kind == 3 and here.isalpha():
        return before + here.swapcase() + after
    return before + _STRANGERS[stranger] + after


def draw_miss(segments: Segments, rng: np.random.Generator) -> str:
    """A string just outside the pattern."""
    while True:
        text = near_miss(sample(segments, rng), rng)
        if not matches(segments, text):
            return text


def draw_cases(segments: Segments, rng: np.random.Generator) -> list[dict[str, object]]:
    """Test cases {string, should_match}: up to four matches and six near misses by chance, and the boundaries."""
    texts = {sample(segments, rng): True for _ in range(4)} | {draw_miss(segments, rng): False for _ in range(6)}
    return _cases(texts | boundary_cases(segments))


def told_apart(right: Segments, wrong: Segments, rng: np.random.Generator) -> list[dict[str, object]]:
    """Up to four test cases on which the pattern `wrong` errs; none where it hardly differs."""
    texts: dict[str, bool] = {}
    for attempt in range(_TRIES):
        text = sample(wrong if attempt % 2 else right, rng)
        should_match = matches(right, text)
        if should_match != matches(wrong, text):
            texts[text] = should_match
        if len(texts) == 4:
            break
    return _cases(texts)


def broken(segments: Segments, rng: np.random.Generator) -> Segments:
    """The pattern with one segment wrong."""
    at = int(rng.integers(len(segments)))
    return (*segments[:at], _spoilt(segments[at], rng), *segments[at + 1 :])


def loosened(segments: Segments, rng: np.random.Generator) -> Segments | None:
    """The pattern with one segment that allows more than before. None where no segment can."""
    places = [at for at, segment in enumerate(segments) if _can_widen(segment)]
    if not places:
        return None
    at = places[int(rng.integers(len(places)))]
    return (*segments[:at], _wider(segments[at], rng), *segments[at + 1 :])


def _cases(texts: dict[str, bool]) -> list[dict[str, object]]:
    return [{"string": text, "should_match": matched} for text, matched in texts.items()]


def _spoilt(segment: Segment, rng: np.random.Generator) -> Segment:
    if isinstance(segment, Run):
        if rng.random() < 0.5:
            others = [kind for kind in CLASSES if kind != segment.kind]
            return replace(segment, kind=others[int(rng.integers(len(others)))])
        if segment.high is None:
            return replace(segment, low=2, high=2)
        more = 1 if rng.random() < 0.5 or segment.low == 1 else -1
        return replace(segment, low=segment.low + more, high=segment.high + more)
    if isinstance(segment, Literal):
        if segment.text in SEPARATORS:
            others = [mark for mark in SEPARATORS if mark != segment.text]
            return replace(segment, text=others[int(rng.integers(len(others)))])
        return (
            replace(segment, optional=not segment.optional)
            if rng.random() < 0.5
            else replace(segment, text=segment.text[:-1])
        )
    if isinstance(segment, Choice):
        return Literal(segment.first if rng.random() < 0.5 else segment.second)
    return Run("digits", 2, 2)


def _can_widen(segment: Segment) -> bool:
    if isinstance(segment, Run):
        return segment.high is not None or segment.kind == "digits"
    return not (isinstance(segment, Literal) and segment.optional)


def _wider(segment: Segment, rng: np.random.Generator) -> Segment:
    if isinstance(segment, Run):
        if segment.high is None or (segment.kind == "digits" and rng.random() < 0.3):
            return replace(segment, kind="hex digits")
        return Run(segment.kind, 1, None) if rng.random() < 0.3 else replace(segment, high=segment.high + 1)
    if isinstance(segment, Literal):
        return replace(segment, optional=True)
    return Run("digits", 2, 2) if isinstance(segment, Bounded) else Run("small letters", 3, 3)
