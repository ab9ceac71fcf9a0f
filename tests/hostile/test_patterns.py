"""Regular expressions that a model may answer."""

import time
from typing import Any

import regex
from hostile.conftest import accepted_or_refused, tried
from hypothesis import example, given
from hypothesis import strategies as st

from evolora_core.foreign.files import Unfit
from evolora_core.foreign.patterns import MOST_NODES, compile_pattern, expanded
from evolora_core.language.families.matching import TIME_LIMIT, grade_pattern

ATOMS = st.sampled_from(
    [
        "a",
        ".",
        r"\d",
        r"\w",
        "[a-z]",
        "[^a]",
        "[[a]",
        "(?:)",
        "()",
        "^",
        "$",
        r"\b",
        r"\1",
        "(?=a)",
        "(?<=a)",
        "(?<!b*)",
        "é",
        "ﬁ",
    ]
    + [
        "(?R)",
        "(?1)",
        "(?&x)",
        r"\p{L}",
        r"\X",
        r"\L<x>",
        "[[:alpha:]]",
        "(?i)",
        "(?x) ",
        "(?#c)",
        "{",
        "}",
        "]",
        ")",
        "\\",
        "|",
    ]
    + [
        "(?V1)",
        "[a--b]",
        "(?b)",
        "(?e)",
        "(?r)",
        "(?P<n>a)",
        "(?P=n)",
        "(?(1)a|b)",
        r"\K",
        r"\G",
        r"\N{DIGIT ONE}",
        "\ud800",
        "\x00",
    ]
)
REPEATS = st.sampled_from(
    [
        "*",
        "+",
        "?",
        "*?",
        "++",
        "{2}",
        "{3,}",
        "{0,9}",
        "{99}",
        "{999}",
        "{1,99}",
        "{99999999}",
        "{,5}",
        "{e<=9}",
        "{i<=3,d<=3}",
        "{ 9 }",
    ]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("".join, st.lists(inner, min_size=1, max_size=4)),
        st.builds("(?:{}){}".format, inner, REPEATS),
        st.builds("({}){}".format, inner, REPEATS),
        st.builds("{}{}".format, inner, REPEATS),
        st.builds("(?:{} ) {}".format, inner, REPEATS),
        st.builds("({}|{})".format, inner, inner),
        st.builds("(?={})".format, inner),
        st.builds("(?<={})".format, inner),
    ),
    max_leaves=12,
)
DEEP = st.builds(lambda n, a, q: "(?:" * n + a + f"){q}" * n, st.integers(1, 40), ATOMS, REPEATS)
TEXTS = st.sampled_from(["", "a" * 40 + "b", "ab" * 500, "a" * 20_000, "1", "é\ud800", "\n"])


@tried
@given(
    pattern=st.one_of(PATTERNS, PATTERNS, DEEP, st.text("()[]{}*+?|\\^$ab0,9<>=!:#&R", max_size=40)),
    texts=st.lists(TEXTS, min_size=1, max_size=4),
)
@example(pattern="(?:(?:a{999}){999}){99}", texts=["a"])
@example(pattern="(?:" * 60 + "a" + ")*" * 60, texts=["a"])
def test_a_pattern(pattern: Any, texts: Any) -> None:
    start = time.monotonic()
    grading = accepted_or_refused(lambda: grade_pattern(pattern, [(text, True) for text in texts]))
    assert 0 <= grading.score <= 1
    assert time.monotonic() - start < 30 * TIME_LIMIT  # machines are slow at times
    try:
        machine = compile_pattern(pattern)
    except Unfit:
        return
    assert isinstance(machine, regex.Pattern)
    assert expanded(pattern) <= MOST_NODES
