"""Which number an answer says, as people read it; and that what they would not take is not read as a number."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.language.families.numbers import extract_number


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
        ("Tom has 5 apples and buys 7, so he has 12", 12),
        ("2, 3, 4, 5", 5),
        ("```\n12\n```\nThat took 3 steps.", 12),
        ("<think>\n3 or 4?\n</think>\n\n5", 5),
        ("<answer>12</answer>", 12),
        ("#### 42", 42),
        ("Total - 12", 12),
        ("5 + 7 -> 12", 12),
        ("2^3 + 4 = 12", 12),
        ("10/2 = 5", 5),
        ("50% of 10 is 5", 5),
        ("12 - 5", 5),
        ("7-$5", 5),
        ("3\u20135", 5),
        ("10 minus 3", 3),
        ("(5, 6)", 6),
        ("5 or 6", 6),
        ("at least 14", 14),
        ("nothing", None),
        ("answer:", None),
        ("", None),
    ],
)
def test_without_a_mark_the_last_number_counts(answer: str, number: int | None) -> None:
    assert extract_number(answer) == number


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: 12\nbecause 5 + 7",
        "**Answer:** 12",
        "answer:\n12\n13",
        "Answer: 12 (rounded to 2 decimals)",
        "Answer: 12, rounded to 2 decimals",
        "Answer: 12 to 2 decimal places",
        "The answer is 12, not 14.",
        "The answer is not 14 but 12",
        "The answer is 12 rather than 14",
        "Answer: 12 because 5 + 7 = 12",
        "Answer: 12, since 3 * 4 is a dozen",
        "The answer is 12. I added 5 and 7.",
        "The answer is 12. 5 + 7 makes 12.",
        "Answer: 12 - the sum of 5 and 7",
        "Answer: 12 apples (5 red and 7 green)",
        "Answer: 5 + 7 = 12",
        "Answer: 12 = 5 + 7",
        "Answer: the sum of 5 and 7 is 12",
        "Answer: 3 boxes * $4 = $12",
        "Answer: 5 + 1 = 6 + 6 = 12",
        "Answer: f(3) = 12",
        "Answer: sqrt(144) = 12",
        "Answer: x = 12",
        "Answer: $12/hour",
        "Answer: 12 (twelve)",
        "Answer: twelve",
        "Answer: 1.2e1",
        "So we get \\boxed{12}. That took 3 steps.",
        "The final answer is: $\\boxed{12\\text{ cm}}$. I hope it is correct.",
        "\\(x = \\boxed{12}\\), as 3 \\times 4 = 12",
        "First 3 + 4 = 7.\nThen 7 + 5 = 12.\nAnswer: 12 apples",
    ],
)
def test_what_explains_a_marked_answer_does_not_replace_it(answer: str) -> None:
    assert extract_number(answer) == 12


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: 5 apples and 3 pears",
        "Answer: x = 3 or x = 4",
        "Answer: x = 3, y = 4",
        "Answer: 3, 4",
        "Answer: (3, 4)",
        "Answer: 3 4",
        "Answer: 3; 4 apples",
        "Answer: 3 or answer: 4",
        "Answer: 42 (or 43)",
        "Answer: 42 (43)",
        "Answer: 12. Wait, it is 14.",
        "Answer: 12 because of this, or 14 because of that",
        "Answer: 12, but it could be 14",
        "Answer: 60 minutes = 1 hour",
        "Answer: 12 hours 30 minutes",
        "Answer: 5 out of 12",
        "Answer: 3 in 10",
        "Answer: five apples and three pears",
        "\\boxed{3} or \\boxed{4}",
        "\\boxed{3 \\text{ or } 4}",
        "Answer: 2 + 3",
        "Answer: 2(x + 3)",
        "Answer: 10-12",
        "Answer: 10 to 12",
    ],
)
def test_a_marked_answer_of_several_numbers_or_of_working_is_none(answer: str) -> None:
    assert extract_number(answer) is None


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is not 14.",
        "It isn't 14",
        "It cannot be 14",
        "14+",
        "\u221a14",
        "\\sqrt{14}",
        "f(14)",
    ],
)
def test_a_number_that_is_denied_or_under_a_root_is_none(answer: str) -> None:
    assert extract_number(answer) is None


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("-7", -7),
        ("(-7)", -7),
        ("- 7", 7),  # a bullet
        ("12 - 17 = - 5", -5),
        ("The answer is - 5", -5),
        ("Answer:\n- 5", 5),
        ("The answer is minus 7.", -7),
        ("negative seven", -7),
        ("\u20137", -7),
        ("nonnegative 3", 3),
        ("3 - 10 = \u22127", -7),
        ("\u20115", -5),
        ("The answer is \uff0d\uff14\uff12", -42),
        ("\\boxed{- 3}", -3),
        ("-$5", -5),
        ("-123456789012345678901234567891", -123456789012345678901234567891),
        ("2.25", Decimal("2.25")),
        (".5", Decimal("0.5")),
        ("It costs $1,250.50.", Decimal("1250.50")),
        ("1\u202f000", 1000),
        ("It is 1\u00a0234 today", 1234),
        ("1'000", 1000),
        ("1_000", 1000),
        ("\\boxed{1{,}234}", 1234),
        ("1\\,234", 1234),
        ("12 345", 12345),
        ("the numbers are 12 345", 345),
        ("1e-3", Decimal("0.001")),
        ("It is 2.5e3", 2500),
        ("3 \u00d7 10^8", 300000000),
        ("3x10^8", 300000000),
        ("3\u00b710\u2078", 300000000),
        ("3 * 10**8", 300000000),
        ("\\boxed{3\\times10^{8}}", 300000000),
        ("3\u00d710\u207b\u2075", Decimal("0.00003")),
        ("10^8", 100000000),
        ("$5 million", 5000000),
        ("1.5 million people", 1500000),
        ("42%", 42),
        ("42\\%", 42),
        ("20\u00b0C", 20),
        ("5cm", 5),
        ("It weighs 5kg.", 5),
        ("5cm\u00b2", 5),
        ("10 m^2", 10),
        ("80 km/h", 80),
    ],
)
def test_numbers_are_read_as_people_write_them(answer: str, number: int | Decimal | None) -> None:
    assert extract_number(answer) == number


@pytest.mark.parametrize(
    "answer",
    ["1/2", "3 1/2", "3\u00bd", "3 \u00bd", "\\frac{1}{2}", "\\boxed{3\\frac{1}{2}}", "\\frac{\\sqrt{2}}{2}",
     "\\boxed{2\\pi}", "2\u221a3", "2^3", "2\u00b3", "12:30", "3:2", "1.2.3", "1,2345",
     "3,5", "0,234", "x12 and 3rd", "5k", "$5M", "5x", "0x1F"],
)  # fmt: skip
def test_what_is_no_plain_number_is_not_read_in_part(answer: str) -> None:
    assert extract_number(answer) is None


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("There are five words.", 5),
        ("one two three 4", 4),
        ("one two three", 3),
        ("Twenty", 20),
        ("thirty-five", None),  # no five
        ("one hundred and five", None),
        ("twenty five", None),
        ("five billion", None),
        ("not seven", None),
        ("I do not know which one", None),
        ("thirty, and then five", 5),
        ("Answer: five, not six", 5),
    ],
)
def test_numerals(answer: str, number: int | None) -> None:
    assert extract_number(answer) == number


@given(st.integers(-(10**9), 10**9))
def test_a_number_survives_its_usual_wrappings(number: int) -> None:
    for text in (
        f"{number}",
        f"{number:,}",
        f"The answer is {number}.",
        f"So it is {number:,}!",
        f"**{number}**\nDone at 3.",
        f"Answer: {number} (checked 3 times)",
        f"\\boxed{{{number}}}",
    ):
        assert extract_number(text) == number


@given(
    st.integers(0, 999), st.integers(0, 999), st.sampled_from([" or ", ", ", " and ", "/", ":", "-", " + ", "; ", " "])
)
def test_a_marked_answer_chooses_no_candidate(first: int, second: int, joint: str) -> None:
    said = extract_number(f"Answer: {first}{joint}{second}")
    joined = Decimal(f"{first}{second}") if joint == " " and second > 99 and first > 0 else None  # thousands
    assert said in (None, joined) or first == second


@given(st.text(st.sampled_from("0123456789.,-+*/^=()[]{}<>$% \n\\eEx") | st.characters(), max_size=200))
def test_no_text_raises(answer: str) -> None:
    found = extract_number(answer)
    assert found is None or found.is_finite()
