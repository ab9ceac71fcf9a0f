"""The extraction rules: what each type of answer is read as, and what it is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.language.families.answers import (
    extract_array,
    extract_boolean,
    extract_letters,
    extract_pattern,
    extract_word,
    same_json,
)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("True", True),
        ("false.", False),
        ("**False**", False),
        ("No, since yes would need a digit", False),
        ("Yes\nNo", True),
        ("TRUE AND FALSE is False", False),
        ("The answer is no because nothing is true", True),  # the last verdict of the marked line, as documented
        ("It is not true", False),
        ("It isn't false.", True),
        ("The statement is false, not true", False),
        ("untrue", None),
        ("maybe", None),
    ],
)
def test_booleans(answer: str, verdict: bool | None) -> None:
    assert extract_boolean(answer) is verdict


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("a_b", "a_b"),
        ("`a_b`", "a_b"),
        ("In snake_case it is `a_b`.", "a_b"),
        ("a_b\n\nI split it at the capital.", "a_b"),
        ("```python\na_b\n```", "a_b"),
        ("Sure!\nThe new name is a_b.", "a_b"),
        ("Answer: 'a_b'", "a_b"),
        ("...", None),
    ],
)
def test_words(answer: str, word: str | None) -> None:
    assert extract_word(answer) == word


@pytest.mark.parametrize(
    ("answer", "letters"),
    [
        ("aabc", "aabc"),
        ("a a b c", "aabc"),
        ("a, a, b, c.", "aabc"),
        ("Sorted: a a b c", "aabc"),
        ("It is aabc.", "aabc"),
    ],
)
def test_letters(answer: str, letters: str) -> None:
    assert extract_letters(answer) == letters


@pytest.mark.parametrize(
    ("answer", "array"),
    [
        ("[1, 2]", [1, 2]),
        ("Here: [1,2] it is", [1, 2]),
        ("From [2, 1] to [1, 2].", [1, 2]),
        ("```json\n[\n 1,\n 2\n]\n```", [1, 2]),
        ("[1, 2]\n\nThe list was [2, 1].", [1, 2]),
        ("The answer is [1, 2].\nI sorted [2, 1].", [1, 2]),
        ("Answer:\n[\n1,\n2\n]", [1, 2]),
        ("[1, 2] is the answer: sorted", [1, 2]),
        ("1, 2", None),
        ("[1, 2", None),
        ("[NaN]", None),
        ("{}", None),
    ],
)
def test_arrays(answer: str, array: list[int] | None) -> None:
    assert extract_array(answer) == array


@pytest.mark.parametrize(
    ("answer", "pattern"),
    [
        (r"\d{3}", r"\d{3}"),
        (r"`\d{3}`", r"\d{3}"),
        (r"The regex is `\d{3}`.", r"\d{3}"),
        (r"Regex: \d{3}", r"\d{3}"),
        ("```\n" + r"\d{3}" + "\n```", r"\d{3}"),
        (r'r"\d{3}"', r"\d{3}"),
        (r"/\d{3}/", r"\d{3}"),
        (r"**\d{3}**", r"\d{3}"),
        (r"The answer is \d{3}.", r"\d{3}"),
        (r"The answer is \d{3}\.", r"\d{3}\."),
        (r"\d{3}.", r"\d{3}."),
        ("/", "/"),
        ("", None),
    ],
)
def test_patterns(answer: str, pattern: str | None) -> None:
    assert extract_pattern(answer) == pattern


def test_json_booleans_are_no_numbers() -> None:
    assert not same_json([1, 0], [True, False])
    assert not same_json({"ok": 1}, {"ok": True}) and not same_json([{"a": {"b": [0]}}], [{"a": {"b": [False]}}])
    assert not same_json({"a": 1}, {"b": 1}) and same_json({"a": [1], "b": True}, {"b": True, "a": [1.0]})
    assert same_json([1, 2.0], [1.0, 2])


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    for extract in (
        extract_boolean,
        extract_word,
        extract_letters,
        extract_array,
        extract_pattern,
    ):
        assert extract(text) == extract(text)
