"""Hostile values, and how a good document is spoilt with them."""

import json
from typing import Any

from hypothesis import strategies as st

NUMBERS = st.sampled_from(
    [float("nan"), float("inf"), -float("inf"), True, False, -1, 0, 1, 2, 0.5, 1e12, 10**12, 2**63, 2**64, -(2**63)]
    + [10**30, 1e308, 5e-324, -0.0, 10**400]
)
WORDS = st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "\x1b[2J\x1b[31m",
        "‮abc",
        "\ud800",
        "\udfff\ud83d",
        "a\nb\r",
        "x" * 5000,
        "é漢🙂",
        "~nobody",
        "..",
        "/",
    ]
    + [
        "/dev/zero",
        "meta",
        "null",
        "{prompt}",
        "%s%n",
        "${HOME}",
        "a.b.c",
        "nan",
        "1e999",
        "-",
        "*a",
        "&a",
        "!!python/none",
    ]
    + [
        "-" * 300,
        "1:2:3:4",
        "2024-13-45",
        "2024-01-01",
        "0x" + "f" * 300,
        "'",
        '"',
        "\\",
        "\\ud800",
        "{{",
        "}}",
        "[",
        "]",
    ]
)
PLAIN = st.one_of(NUMBERS, WORDS, st.none(), st.text(max_size=20), st.integers(), st.floats())
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=6)), inner, max_size=3)
    ),
    max_leaves=8,
)


def nested(depth: int, leaf: Any = 0) -> Any:
    """A list in a list in a list."""
    for _ in range(depth):
        leaf = [leaf]
    return leaf


DEEP = st.sampled_from([nested(30), nested(60), nested(300)])
ANY = st.one_of(VALUES, VALUES, VALUES, DEEP)


def paths(document: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [place for key, inner in items for place in ((*above, key), *paths(inner, (*above, key)))]


def replaced(document: Any, path: tuple[Any, ...], value: Any, how: str = "set") -> Any:
    """A copy with one place set to a value, taken out, or put there under another key."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    key, *rest = path
    if rest:
        copy[key] = replaced(copy[key], tuple(rest), value, how)
    elif how == "drop":
        del copy[key]
    elif how == "rename" and isinstance(copy, dict):
        copy[str(value)[:60]] = copy.pop(key)
    else:
        copy[key] = value
    return copy


@st.composite
def spoilt(draw: st.DrawFn, document: Any, most: int = 3) -> Any:
    """A good document with one to `most` places spoilt."""
    for _ in range(draw(st.integers(1, most))):
        places = paths(document)
        if not places:
            return document
        how = draw(st.sampled_from(["set", "set", "set", "drop", "rename"]))
        document = replaced(document, draw(st.sampled_from(places)), draw(ANY), how)
    return document


@st.composite
def garbled(draw: st.DrawFn, text: str, marks: str) -> str:
    """A good text with pieces cut out, doubled, or marks put in."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(text) - 1)))
        until = min(len(text), at + draw(st.integers(0, 20)))
        put = draw(
            st.one_of(st.text(marks, max_size=8), WORDS, st.sampled_from(["[" * 100, "{" * 100, text[at:until]]))
        )
        text = text[:at] + put + text[draw(st.sampled_from([at, until])) :]
    return text


def as_json(document: Any) -> str:
    """JSON as others write it: with NaN and halves of characters."""
    return json.dumps(document)
