"""Numbers in words: known spellings, every number by two independent ways, answers read strictly."""

import pytest
from random_host import draw_items

from evolora_core.language.families.base import Item
from evolora_core.language.families.number_words import LANGUAGES, complaint, solve
from evolora_core.language.families.registry import get, grade

KNOWN = {
    "English": "0 zero, 13 thirteen, 40 forty, 101 one hundred one, 1999 one thousand nine hundred ninety nine",
    "German": "1 eins, 16 sechzehn, 21 einundzwanzig, 101 einhunderteins, 35001 fuenfunddreissigtausendeins",
    "French": "71 soixante et onze, 80 quatre vingts, 81 quatre vingt un, 200 deux cents, 201 deux cent un, "
    "1000 mille, 80000 quatre vingt mille, 21500 vingt et un mille cinq cents",
    "Spanish": "16 dieciseis, 22 veintidos, 31 treinta y uno, 100 cien, 500 quinientos, 1001 mil uno, "
    "21000 veintiun mil, 100000 cien mil, 131101 ciento treinta y un mil ciento uno",
}


@pytest.mark.parametrize("language", KNOWN)
def test_known_spellings(language: str) -> None:
    known = [entry.split(" ", 1) for entry in KNOWN[language].split(", ")]
    assert [LANGUAGES[language](int(n)) for n, _ in known] == [words for _, words in known]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_number_is_solved_both_ways(language: str) -> None:
    for n in (*range(10_000), *range(10_000, 1_000_000, 1_789)):
        words = LANGUAGES[language](n)
        assert words.isascii() and words.replace(" ", "").isalpha() and words.islower()
        assert solve(f"Write in {language}: {n}") == words
        assert solve(f"Write as digits: {words}") == str(n)


def test_an_answer_without_end_is_read_in_time() -> None:
    item = draw_items("number.words", 1, 0)[0]
    assert not grade(item, "dreizehn" * 200 + "dr").correct


def test_no_words_mean_two_numbers() -> None:
    said: dict[str, int] = {}
    assert all(said.setdefault(say(n), n) == n for say in LANGUAGES.values() for n in range(2_000))


def words_item(words: str) -> Item:
    return Item("", words, "number.words", "short", "")


def test_answers_in_words_are_read_whole() -> None:
    item = words_item("quatre vingt dix sept")
    for answer in (
        "quatre-vingt-dix-sept",
        "Quatre vingt dix sept.",
        "The answer is `quatre-vingt-dix-sept`.",
        "97 in French:\nquatre vingt dix sept",
        "97 is written quatre vingt dix sept.",
    ):
        assert grade(item, answer).correct, answer
    for answer in (
        "dix sept",
        "cent quatre vingt dix sept",
        "quatre vingt dix sept\nanswer: sept",
        "It is quatre vingt dix sept, no, seize",
        "quatre vingt dix sept quatre vingt",
        "97",
        "quatrevingtdixsept",
    ):
        assert not grade(item, answer).correct, answer


def test_figures_are_asked_for_in_figures() -> None:
    item = Item("", 7, "number.words", "short", "")
    assert grade(item, "7").correct and grade(item, "The answer is 7.").correct
    assert grade(item, "seven").reason == "no answer"
    assert not grade(item, "-7").correct and not grade(item, "17").correct


def test_partial_credit_by_place() -> None:
    assert grade(words_item("cent vingt deux"), "cent trente deux").score == pytest.approx(2 / 3)
    assert grade(words_item("forty two"), "forty two two two").score == 0.5
    assert grade(Item("", 1234, "number.words", "short", ""), "1264").score == 0.75


def test_targets_of_files() -> None:
    assert get("number.words").complaint is complaint
    assert complaint("vierzig") is None and complaint(40) is None
    assert complaint("") is not None and complaint([1]) is not None and complaint(None) is not None
