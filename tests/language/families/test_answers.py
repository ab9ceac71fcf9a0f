"""The extraction rules: what each type of answer is read as, and what it is not."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.language.families.answers import (
    extract_array,
    extract_boolean,
    extract_letters,
    extract_number,
    extract_pattern,
    extract_word,
    same_json,
)


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("12", 12),
        ("The answer is 12.", 12),
        ("12.\nI added 5 and 7.", 12),
        ("3\nThe sentence has 5 letters in its 3 words", 3),
        ("2 * 3 = 500000", 500000),
        ("It is 500,000.", 500000),
        ("500400", 500400),
        ("5 + 7 = 12", 12),
        ("Answer: 12\nbecause 5 + 7", 12),
        ("**Answer:** 12", 12),
        ("answer:\n12\n13", 12),
        ("```\n12\n```\nThat took 3 steps.", 12),
        ("\\boxed{12}", 12),
        ("-7", -7),
        ("- 7", 7),  # a bullet
        ("12 - 17 = - 5", -5),
        ("The answer is - 5", -5),
        ("Answer:\n- 5", 5),
        ("12 - 5", 5),
        ("-123456789012345678901234567891", -123456789012345678901234567891),
        ("The answer is minus 7.", -7),
        ("negative seven", -7),
        ("\u20137", -7),
        ("3\u20135", 5),
        ("3 \u2013 5", 5),
        ("10 minus 3", 3),
        ("nonnegative 3", 3),
        ("3 - 10 = \u22127", -7),
        ("7-5", 5),
        ("2.25", Decimal("2.25")),
        ("There are five words.", 5),
        ("one two three 4", 4),
        ("one two three", 3),
        ("Twenty", 20),
        ("thirty-five", None),  # no five
        ("one hundred and five", None),
        ("twenty five", None),
        ("thirty, and then five", 5),
        ("-$5", -5),
        ("It costs $1,250.50.", Decimal("1250.50")),
        ("7-$5", 5),
        (".5", Decimal("0.5")),
        ("1e-3", Decimal("0.001")),
        ("It is 2.5e3", 2500),
        ("10/2 = 5", 5),
        ("1/2", None),
        ("12/34", None),
        ("1,2345", None),
        ("x12 and 3rd", None),
        ("1\u202f000", 1000),
        ("It is 1\u00a0234 today", 1234),
        ("1'000", 1000),
        ("1_000", 1000),
        ("\\boxed{1{,}234}", 1234),
        ("1\\,234", 1234),
        ("12 345", 12345),
        ("the numbers are 12 345", 345),
        ("\u20115", -5),
        ("The answer is \uff0d\uff14\uff12", -42),
        ("\\boxed{- 3}", -3),
        ("\\frac{1}{2}", None),
        ("10 m^2", 10),
        ("<think>\n3 or 4?\n</think>\n\n5", 5),
        ("nothing", None),
        ("answer:", None),
        ("", None),
    ],
)
def test_numbers(answer: str, number: int | Decimal | None) -> None:
    assert extract_number(answer) == number


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


@given(st.integers(-(10**9), 10**9))
def test_a_number_survives_its_usual_wrappings(number: int) -> None:
    for text in (
        f"{number}",
        f"{number:,}",
        f"The answer is {number}.",
        f"So it is {number:,}!",
        f"**{number}**\nDone at 3.",
    ):
        assert extract_number(text) == number


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    for extract in (
        extract_number,
        extract_boolean,
        extract_word,
        extract_letters,
        extract_array,
        extract_pattern,
    ):
        assert extract(text) == extract(text)
