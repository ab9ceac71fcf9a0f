"""`number.words`: whole numbers in English, German, French and Spanish words. Target: the words, or the number.

| depth | numbers | longest answer | prompts |
|---|---|---|---|
| short | 0-1,999 | 40 characters | 16,000 |
| medium | 2,000-9,999 | 46 characters | 64,000 |
| long | 10,000-999,999 | 73 characters | 7,920,000 |

Half of the prompts give figures and ask for words (`Write in German: 47`), half give words and ask for figures (`Write
as digits: siebenundvierzig`); each language is as likely as the others.

Spelling: small ASCII letters; `ae oe ue ss` for umlauts and the sharp s, accents left out; blanks where the language
writes hyphens (`forty seven`, `quatre vingt dix`), German in one word. English without `and`, German with `ein` before
`hundert` and `tausend`, French of France. An answer may have capitals and hyphens. The score is the fraction of words,
or of figures, that are right in their place.
"""

import re
from collections.abc import Callable
from operator import eq
from typing import Any

import numpy as np

from evolora_core.language.families.answers import final_lines
from evolora_core.language.families.base import DEPTHS, NO_ANSWER, Family, Grade, Item, wrong
from evolora_core.language.families.numbers import extract_number
from evolora_core.language.families.verdicts import number_of, number_text, verify_sequence

_RANGE = {"short": (0, 1_999), "medium": (2_000, 9_999), "long": (10_000, 999_999)}
_TO_WORDS, _TO_DIGITS = "Write in ", "Write as digits: "

# Each language's numbers up to the last irregular one, then its tens.
_EN_TEXT = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
_EN_TENS_TEXT = "twenty thirty forty fifty sixty seventy eighty ninety"
_DE_TEXT = "null eins zwei drei vier fuenf sechs sieben acht neun zehn elf zwoelf dreizehn vierzehn fuenfzehn sechzehn "
_DE_TENS_TEXT = "zwanzig dreissig vierzig fuenfzig sechzig siebzig achtzig neunzig"
_FR_TEXT = "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
_FR_TENS_TEXT = "vingt trente quarante cinquante soixante"
_ES_TEXT = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete "
    "veintiocho veintinueve"
)
_ES_TENS_TEXT = "treinta cuarenta cincuenta sesenta setenta ochenta noventa"
_ES_HUNDREDS_TEXT = (
    "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
)
_EN, _EN_TENS = (_EN_TEXT + "seventeen eighteen nineteen").split(), _EN_TENS_TEXT.split()
_DE, _DE_TENS = (_DE_TEXT + "siebzehn achtzehn neunzehn").split(), _DE_TENS_TEXT.split()
_FR, _FR_TENS = [*_FR_TEXT.split(), "dix sept", "dix huit", "dix neuf"], _FR_TENS_TEXT.split()
_ES, _ES_TENS, _ES_HUNDREDS = _ES_TEXT.split(), _ES_TENS_TEXT.split(), _ES_HUNDREDS_TEXT.split()


def _english(n: int) -> str:
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if n >= size:
            return f"{_english(n // size)} {name}" + (f" {_english(n % size)}" if n % size else "")
    if n < 20:
        return _EN[n]
    return _EN_TENS[n // 10 - 2] + (f" {_EN[n % 10]}" if n % 10 else "")


def _german(n: int) -> str:
    for size, name in ((1000, "tausend"), (100, "hundert")):
        if n >= size:
            head = _german(n // size)
            head = head.removesuffix("s") if head.endswith("eins") else head
            return head + name + (_german(n % size) if n % size else "")
    if n < 20:
        return _DE[n]
    unit = "" if n % 10 == 0 else "einund" if n % 10 == 1 else f"{_DE[n % 10]}und"
    return unit + _DE_TENS[n // 10 - 2]


def _french(n: int, last: bool = True) -> str:
    """`last`: whether no word follows, so that `cents` and `vingts` have their s."""
    if n >= 1000:
        head = "" if n < 2000 else f"{_french(n // 1000, last=False)} "
        return f"{head}mille" + (f" {_french(n % 1000)}" if n % 1000 else "")
    if n >= 100:
        head = "" if n < 200 else f"{_FR[n // 100]} "
        plural = "s" if last and n >= 200 and n % 100 == 0 else ""
        return f"{head}cent{plural}" + (f" {_french(n % 100, last)}" if n % 100 else "")
    if n >= 80:
        return ("quatre vingts" if last else "quatre vingt") if n == 80 else f"quatre vingt {_FR[n - 80]}"
    if n < 20:
        return _FR[n]
    tens = min(n // 10, 6)
    rest = n - 10 * tens
    return _FR_TENS[tens - 2] + (f" et {_FR[rest]}" if rest in (1, 11) else f" {_FR[rest]}" if rest else "")


def _spanish(n: int) -> str:
    if n >= 1000:
        head = _spanish(n // 1000)
        head = "" if n < 2000 else f"{head.removesuffix('o') if head.endswith('uno') else head} "
        return f"{head}mil" + (f" {_spanish(n % 1000)}" if n % 1000 else "")
    if n >= 100:
        return "cien" if n == 100 else _ES_HUNDREDS[n // 100 - 1] + (f" {_spanish(n % 100)}" if n % 100 else "")
    return _ES[n] if n < 30 else _ES_TENS[n // 10 - 3] + (f" y {_ES[n % 10]}" if n % 10 else "")


LANGUAGES: dict[str, Callable[[int], str]] = {
    "English": _english,
    "German": _german,
    "French": _french,
    "Spanish": _spanish,
}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, str | int]:
    """(prompt, target): target is words as text where words are asked for, else the number."""
    low, high = _RANGE[depth]
    number = int(rng.integers(low, high, endpoint=True))
    language = tuple(LANGUAGES)[int(rng.integers(len(LANGUAGES)))]
    words = LANGUAGES[language](number)
    if rng.random() < 0.5:
        return f"{_TO_WORDS}{language}: {number}", words
    return f"{_TO_DIGITS}{words}", number


def solution(target: Any) -> str:
    """The words or the figures."""
    return str(target) if number_of(target) is None else number_text(target)


def verify(item: Item, answer: str) -> Grade:
    """All words in their order, or the number in figures."""
    expected = solution(item.target)
    if number_of(item.target) is None:
        found = extract_number_words(answer)
        return verify_sequence(found, _spelled(expected), eq) if found else NO_ANSWER
    number = extract_number(answer) if re.search("[0-9]", answer) else None  # `seven` is not in figures
    if number is None:
        return NO_ANSWER
    # A number of thousands of digits is none of ours.
    return verify_sequence(number_text(str(number)), expected, eq) if number_of(str(number)) is not None else wrong()


def extract_number_words(answer: str) -> list[str]:
    """The words of an answer that is a number in words, hyphens read as blanks: a first line of nothing else; else, in
    the last line, the number words at its end, or the whole line where there are none."""
    lines = [_spelled(line) for line in final_lines(answer)]
    if not lines or all(map(_is_number_word, lines[0])):
        return lines[0] if lines else []
    last = lines[-1]
    start = len(last)
    while start > 0 and _is_number_word(last[start - 1]):
        start -= 1
    return last[start:] or last


def _spelled(text: str) -> list[str]:
    return re.sub(r"[-`*\"'.,:;!?()\s]+", " ", text.lower()).split()


# What a number word is made of, with what it counts; the solver adds these up.
_VALUES = {
    **{word: value for words in (_EN, _DE, _FR[:17], _ES) for value, word in enumerate(words)},
    **{word: 10 * value for words in (_EN_TENS, _DE_TENS, _FR_TENS) for value, word in enumerate(words, 2)},
    **{word: 10 * value for value, word in enumerate(_ES_TENS, 3)},
    **{word: 100 * value for value, word in enumerate(_ES_HUNDREDS, 1)},
    **dict.fromkeys(("ein", "un"), 1),
    **dict.fromkeys(("y", "et", "und"), 0),
    **dict.fromkeys(("quatre vingt", "quatre vingts"), 80),
    "veintiun": 21,
    "vingts": 20,
    "cien": 100,
    **dict.fromkeys(("hundred", "hundert", "cent", "cents"), 100),
    **dict.fromkeys(("thousand", "tausend", "mille", "mil"), 1000),
}
_MULTIPLIED = ("hundred", "hundert", "cent", "cents")
_PART = re.compile("|".join(sorted(_VALUES, key=len, reverse=True)))
_NUMBER_WORD = re.compile(f"(?>{_PART.pattern})+")  # atomic: `dreizehn` has one reading, or time would grow with 2ⁿ


def _is_number_word(word: str) -> bool:
    return _NUMBER_WORD.fullmatch(word) is not None


def solve(prompt: str) -> str:
    """Figures by adding up the parts of the words; words digit by digit as if the language had no exceptions, then its
    exceptions one after another."""
    if prompt.startswith(_TO_DIGITS):
        return str(_value(prompt.removeprefix(_TO_DIGITS)))
    language, _, figures = prompt.removeprefix(_TO_WORDS).partition(": ")
    return _by_exceptions(language, figures)


def _value(words: str) -> int:
    total = group = 0
    for part in _PART.findall(words):
        if part in _MULTIPLIED:
            group = 100 * max(group, 1)
        elif _VALUES[part] == 1000:
            total, group = 1000 * max(group, 1), 0
        else:
            group += _VALUES[part]
    return total + group


# The words for the digits, for 10 to 90, for hundred and thousand, as if each were said by itself.
_FR_PLAIN_TENS = "|dix|vingt|trente|quarante|cinquante|soixante|soixante dix|quatre vingt|quatre vingt dix"
_PLAIN = {
    "English": (_EN[1:10], ["", "ten", *_EN_TENS], "hundred", "thousand"),
    "German": (_DE[1:10], ["", "zehn", *_DE_TENS], "hundert", "tausend"),
    "French": (_FR[1:10], _FR_PLAIN_TENS.split("|"), "cent", "mille"),
    "Spanish": (_ES[1:10], ["", "diez", "veinte", *_ES_TENS], "cientos", "mil"),
}
_EXCEPTIONS = {
    "English": (
        *(("ten one", "eleven"), ("ten two", "twelve"), ("ten three", "thirteen"), ("ten five", "fifteen")),
        *(("ten eight", "eighteen"), (r"ten (four|six|seven|nine)", r"\1teen")),
    ),
    "German": (
        *(("zehn eins", "elf"), ("zehn zwei", "zwoelf"), ("zehn sechs", "sechzehn"), ("zehn sieben", "siebzehn")),
        *(
            (r"zehn (drei|vier|fuenf|acht|neun)", r"\1zehn"),
            (r"(\w+[zs]ig) (\w+n|\w+s|drei|zwei|vier|fuenf|acht)\b", r"\2und\1"),
        ),
        *((r"eins(?=und| hundert| tausend)", "ein"), (" ", "")),
    ),
    "French": (
        *(("dix un", "onze"), ("dix deux", "douze"), ("dix trois", "treize"), ("dix quatre", "quatorze")),
        *(("dix cinq", "quinze"), ("dix six", "seize"), (r"\bun cent", "cent"), (r"^un mille", "mille")),
        *((r"(?<!quatre )(vingt|ante|ente) (un|onze)\b", r"\1 et \2"), (r"quatre vingt$", "quatre vingts")),
        (r"(deux|trois|quatre|cinq|six|sept|huit|neuf) cent$", r"\1 cents"),
    ),
    "Spanish": (
        *(("diez uno", "once"), ("diez dos", "doce"), ("diez tres", "trece"), ("diez cuatro", "catorce")),
        *(("diez cinco", "quince"), (r"diez (seis|siete|ocho|nueve)", r"dieci\1"), ("uno cientos", "ciento")),
        *(("cinco cientos", "quinientos"), ("siete cientos", "setecientos"), ("nueve cientos", "novecientos")),
        *((" cientos", "cientos"), (r"\bciento(?= mil|$)", "cien"), (r"^uno mil\b", "mil")),
        (r"veinte (uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve)\b", r"veinti\1"),
        (r"nta (uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve)\b", r"nta y \1"),
        ("uno mil", "un mil"),
    ),
}


def _by_exceptions(language: str, figures: str) -> str:
    digits, tens, hundred, thousand = _PLAIN[language]
    if figures == "0":
        return {"German": "null", "Spanish": "cero"}.get(language, "zero")
    parts: list[str] = []
    for place, figure in zip(range(len(figures) - 1, -1, -1), map(int, figures), strict=True):
        if figure:
            parts.append(tens[figure] if place % 3 == 1 else digits[figure - 1])
            parts += [hundred] if place % 3 == 2 else []
        parts += [thousand] if place == 3 else []
    text = " ".join(parts)
    for pattern, replacement in _EXCEPTIONS[language]:
        text = re.sub(pattern, replacement, text)
    return text


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    if isinstance(target, str) and _spelled(target):
        return None
    return None if number_of(target) is not None else "must be a number, or words as text"


FAMILY = Family("number.words", DEPTHS, draw, solution, verify, solve, complaint)
