r"""The number of an answer: which of the figures in a free text it is, and what it is worth.

The text is that of `answers.py`; LaTeX's `\boxed{}` is a mark for numbers too. Then:

1. If the first line is a number and nothing else, it is the answer.
2. What says something about a figure is left out: words in brackets behind it, to how many digits it was rounded, and
   a figure that `not` takes away.
3. Behind a mark the text also ends where an explanation begins (`because`, a new sentence), unless that takes the
   answer back (`Wait, no`). It is cut at each `=` and `is`. A piece with one figure says a number, one with several is
   working (`5 + 7`). The pieces that say a number have to agree; else there is no answer.
4. Without a mark the last figure decides. Where it is no plain number (1/2, 12:30, 3rd, 2^3), there is no answer; no
   earlier figure takes its place.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

from evolora_core.language.families.answers import MARK, PUNCTUATION, marked_lines
from evolora_core.language.families.unspaced import MORE, spaced

_GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_BOX = re.compile(rf"\\boxed\s*({_GROUP})")
# The first mark of a line, so that `Answer: 3 or answer: 4` is read whole.
_MARK = re.compile(rf"^[^\n]*?{MARK.pattern}", re.IGNORECASE | re.MULTILINE)
# A minus that stands apart from its number, as a result (`= - 5`, `Answer: - 5`); elsewhere it may be a bullet.
_APART = re.compile(r"((?:[=:{]|\bis\b)\**[ \t]*)([-\u2212])[ \t](?=[$\u20ac\u00a3]?\.?[0-9])", re.IGNORECASE)
# A sign in other forms: in words, or as a dash that does not join two numbers (3–5).
_MINUS = re.compile(r"(?:(?<![0-9)\]]\s)\b(?:minus|negative)\s+|(?<![\w)\]])(?<![\w)\]] )\u2013)$", re.IGNORECASE)

# Other ways to write a digit, a minus, a slash and an exponent, and what stands between thousands.
_AS_ASCII = (
    {0xFF10 + digit: str(digit) for digit in range(10)}
    | dict.fromkeys((0x2011, 0xFE63, 0xFF0D), "-")
    | dict.fromkeys((0x2044, 0x2215), "/")
)
_RAISED = re.compile("[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
_LOWERED = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-")
_THOUSANDS = re.compile(r"(?<=[0-9])(?:\{,\}|\\,|['\u2019_\u00a0\u2009\u202f\uff0c])(?=[0-9]{3}(?![0-9]))")
_APART_ALONE = re.compile(r"^([-\u2212]?[1-9][0-9]{0,2})((?: [0-9]{3})+)$")
_EXPONENT = r"10(?:\^|\*\*)\(?([-+]?[0-9]{1,2})\)?(?![\w.])"
# What is read in place of LaTeX and of powers, in this order. A power becomes its base with ^ behind it, which is no
# plain number, unless it is one of ten; a fraction becomes ½, which is none either.
_READ_AS = [
    (re.compile(written), read)
    for written, read in (
        (rf"\\[dt]?frac\s*{_GROUP}\s*{_GROUP}", "\u00bd"),
        (r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}", r" \1 "),
        (r"\\sqrt\s*\{?", "\u221a"),
        (r"\\pi(?![A-Za-z])", "\u03c0"),
        (r"\\%", "%"),
        (r"\^(?:\{?\\circ\}?)", "\u00b0"),
        (r"\^\{([^{}]*)\}", r"^\1"),
        (rf"(?<=[0-9])\s?(?:[\u00d7xX*\u00b7]|\\times|\\cdot)\s?{_EXPONENT}", r"e\1"),
        (rf"(?<![\w.]){_EXPONENT}", r"1e\1"),
        (r"\^[-+]?\w+", "^"),
    )
]

_ASIDE = re.compile(
    r"(?<=[A-Za-z])\([^()]*\)"  # f(3)
    r"|(?<=[\w%\u00b0.]) \((?=[^()]*[A-Za-z]{2})(?![^()]*\bor\b)[^()]*\)"
    r"|,? (?:rounded )?to (?:the nearest \w+|[0-9] (?:decimal|significant)(?:s| places?| figures?| digits?)?)",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(r"\b(?:because|since|rounded)\b|[.;!] (?=[A-Za-z(]|.*=)| [-\u2013] (?=[A-Za-z])|\u2014", re.I)
_TAKEN_BACK = re.compile(r"\b(?:or|else|otherwise|unless|but|wait|actually|no|wrong|sorry|answer)\b", re.IGNORECASE)
_EQUALS = re.compile(r"[=\u2248\u2192]|->|\b(?:is|are|equals?|makes|gives)\b", re.IGNORECASE)
_NOT = re.compile(
    r"(?:\b(?:not|never|cannot(?: be)?|rather than|instead of)|n['\u2019]t(?: be)?|[\u4e0d\u975e]\u662f?) $",
    re.IGNORECASE,
)
_BEFORE = 24  # characters before a number in which a sign or `not` is looked for

_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_UNIT = r"(?:mm|cm|dm|km|ml|cl|dl|mg|g|kg|lbs?|oz|ft|ms|min|hrs?|k?Wh|[kMG]?Hz|[kKMGT]B|km/h|mph|EUR|USD)"
# What begins with a digit is a plain number that stands alone, or none. Commas count only as thousands separators. A
# sign may stand before a currency mark.
_FIGURE = re.compile(
    r"(?<![\w.,^\u221a])(?P<sign>[-\u2212+]?)[$\u20ac\u00a3]?"
    r"(?:(?P<digits>(?:(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?)"
    rf"(?:{_UNIT}\^?)?(?:[ -](?P<scale>{'|'.join(_SCALES)})s?\b)?(?![\w^+\u221a]|[.,:/][0-9]| ?\u00bd| {MORE})"
    r"|\.?[0-9](?:[\w^+]|[.,:/][0-9])*)|\u00bd",
)
_NUMERALS_TEXT = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_NUMERALS = tuple(_NUMERALS_TEXT.split())
_LARGER = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", *_SCALES)
_WORD = rf"(?:{'|'.join((*_NUMERALS, *_LARGER))})"
_NUMERAL = re.compile(rf"\b{_WORD}(?:(?:[ -]|\s+and\s+){_WORD})*\b", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:which|this|that|the|no|any|every|each|other|last) one\b", re.IGNORECASE)


@dataclass(frozen=True)
class _Figure:
    """Where a figure or numeral begins in a text, and what it is worth; None: it is no plain number."""

    start: int
    value: Decimal | None


def extract_number(answer: str) -> Decimal | None:
    """The number of an answer: `12`, `The answer is 12 (rounded).`, `500,000`, `2 * 3 = 6` (6). Where there is no
    figure, an English numeral up to twenty, which is no part of a larger one. None if there is none, or if it is not
    clear which it is."""
    answer = _APART.sub(r"\1\2", spaced(answer.translate(_AS_ASCII))).replace("\\boxed", "answer: \\boxed")
    lines, marked = marked_lines(answer, _MARK)
    if marked and lines:
        lines = [" , ".join(_BOX.findall(lines[0])) or lines[0]]
    lines = [_plain(line) for line in lines]
    if not lines:
        return None
    alone = _FIGURE.fullmatch(lines[0].rstrip(PUNCTUATION + "%").lstrip(PUNCTUATION.replace(".", "")))
    if alone:
        return _value(alone)
    text = _ASIDE.sub("", "\n".join(lines))
    if marked:
        return _said(text)
    figures = _figures(text)
    return figures[-1].value if figures else None


def _plain(line: str) -> str:
    """A line with single blanks, and its thousands and powers as `_FIGURE` reads them."""
    line = " ".join(_THOUSANDS.sub(",", line).split())
    if grouped := _APART_ALONE.match(line.strip(PUNCTUATION)):  # `12 345` and nothing else
        return grouped[0].replace(" ", ",")
    line = _RAISED.sub(lambda raised: f"^{raised[0].translate(_LOWERED)}", line)
    for written, read in _READ_AS:
        line = written.sub(read, line)
    return line


def _said(text: str) -> Decimal | None:
    """The number that a marked answer says, in one piece or the same in several."""
    figures = _figures(text)
    if not figures:
        return None
    begun = _EXPLAINED.search(text, figures[0].start)
    if begun and not _TAKEN_BACK.search(text, begun.start()):
        text = text[: begun.start()]
    cuts = [0, *(cut.start() for cut in _EQUALS.finditer(text)), len(text)]
    pieces = [
        [figure.value for figure in figures if start <= figure.start < end]
        for start, end in zip(cuts[:-1], cuts[1:], strict=True)
    ]
    said = {piece[0] for piece in pieces if len(piece) == 1}
    return said.pop() if len(said) == 1 else None


def _figures(text: str) -> list[_Figure]:
    """The figures of a text, or the numerals where it has none, but for those that `not` takes away."""
    figures = [(figure.start(), _value(figure)) for figure in _FIGURE.finditer(text)]
    if not figures:
        text = _PRONOUN.sub(lambda one: " " * len(one[0]), text)
        figures = [(numeral.start(), _numeral(numeral[0])) for numeral in _NUMERAL.finditer(text)]
    found = []
    for start, value in figures:
        before = text[max(0, start - _BEFORE) : start]
        if not _NOT.search(before):
            below = value is not None and _MINUS.search(before)
            found.append(_Figure(start, value.copy_negate() if value is not None and below else value))
    return found


def _value(figure: re.Match[str]) -> Decimal | None:
    if figure["digits"] is None:
        return None
    _, digits, exponent = Decimal(figure["digits"].replace(",", "")).as_tuple()
    assert isinstance(exponent, int)
    below = figure["sign"] in ("-", "\u2212")
    return Decimal((int(below), digits, exponent + _SCALES.get(figure["scale"], 0)))  # no digit is rounded


def _numeral(words: str) -> Decimal | None:
    *before, word = re.split(r"[ -]|\s+and\s+", words.lower())
    if word not in _NUMERALS or any(own in ("twenty", *_LARGER) for own in before):
        return None
    return Decimal(_NUMERALS.index(word))
