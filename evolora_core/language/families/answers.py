"""How the final answer is read out of free text: one deterministic rule for each type of answer.

The same steps serve every type:

1. If the text has a fenced code block, its content (the last block's) is the text.
2. Else, if it says `answer:`, `answer is` or `answer =`, the rest of that line is the text (the last such mark; the
   next line where nothing follows the mark).
3. If the first line is an answer and nothing else, it is the answer.
4. Otherwise the last thing of the type in the text is the answer.

The gold target is never looked at, so an answer that lists several candidates does not get to choose.
"""

import json
import re
from decimal import Decimal
from typing import Any

# Behind the marks that open it stands the name of a language or nothing; so a span in such marks (```f```:) opens none.
_FENCE = re.compile(r"```[ \t]*(?:\w[\w+#.-]*(?:[ \t][^\n`]*)?)?\n(.*?)(?:```|\Z)", re.DOTALL)
# Stars right behind the mark close its own bold print; those before the answer are the answer's.
_MARK = re.compile(r"\banswer\b\**\s*(?:is\b|[:=])\**[\s:]*", re.IGNORECASE)
_PATTERN_MARK = re.compile(r"\b(?:answer|pattern|regex)\b\**\s*(?:is\b|[:=])\**[ \t:]*", re.IGNORECASE)

# A number stands alone: no letter, digit or decimal mark touches it, and it is no part of a fraction (1/2). Commas
# count only as thousands separators. A sign may stand before a currency mark.
_NUMBER = re.compile(
    r"(?<![\w.,^])(?<![0-9]/)(?<!\^\{)([-\u2212+]?)[$\u20ac\u00a3]?"
    r"((?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?)"
    r"(?!\w|[.,][0-9]|/[0-9])"
)
_NUMERALS_TEXT = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_NUMERALS = tuple(_NUMERALS_TEXT.split())
_LARGER = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "million")
_WORD = rf"(?:{'|'.join((*_NUMERALS, *_LARGER))})"
_NUMERAL = re.compile(rf"\b{_WORD}(?:(?:[ -]|\s+and\s+){_WORD})*\b", re.IGNORECASE)

# A minus that stands apart from its number, as a result (`= - 5`, `Answer: - 5`); elsewhere it may be a bullet.
_APART = re.compile(r"((?:[=:{]|\bis\b)\**[ \t]*)([-\u2212])[ \t](?=[$\u20ac\u00a3]?\.?[0-9])", re.IGNORECASE)

# A sign before a number in other forms: in words, or as a dash that does not join two numbers (3–5).
_MINUS = re.compile(r"(?:(?<![0-9)\]]\s)\b(?:minus|negative)\s+|(?<![\w)\]])(?<![\w)\]] )\u2013)$", re.IGNORECASE)

# Other ways to write a digit, a minus and what stands between thousands; a fraction of LaTeX is no number.
_AS_ASCII = {0xFF10 + digit: str(digit) for digit in range(10)} | dict.fromkeys((0x2011, 0xFE63, 0xFF0D), "-")
_THOUSANDS = re.compile(r"(?<=[0-9])(?:\{,\}|\\,|['\u2019_\u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))")
_APART_ALONE = re.compile(r"^([-\u2212]?[0-9]{1,3})((?: [0-9]{3})+)$")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{[^{}]*\}\s*\{[^{}]*\}")

# What a model thinks before it answers.
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)

_VERDICT = re.compile(r"(\bnot\s+|n['\u2019]t\s+)?\b(true|false|yes|no)\b", re.IGNORECASE)
_OPENING_VERDICT = re.compile(r"(true|false|yes|no)(?:\s*(?:[.,:;!\n\u2014]|$)|\s+[-\u2013]\s)", re.IGNORECASE)

_ARRAY = re.compile(r"\[[^\[\]]*\]")
_OPENING_ARRAY = re.compile(r"[`*]*(\[[^\[\]]*\])[`*.,;:!]*(?:\n|\Z)")
_INLINE_FENCE = re.compile(r"```([^`\n]+)```")
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_WRAPPING = "`*\"'\u2018\u2019\u201c\u201d"
PUNCTUATION = _WRAPPING + ".,:;!?()[]{}$ "


def final_lines(answer: str, mark: re.Pattern[str] = _MARK, *, several: bool = False) -> list[str]:
    """Steps 1 and 2: the stripped, non-empty lines in which the final answer is looked for. With `several` an answer
    may have more than the line of its mark. What is thought before it (`<think>`) is left out.
    """
    answer = _THOUGHTS.sub("", answer)
    fences = _FENCE.findall(answer)
    if fences:
        return _lines(fences[-1])
    marks = list(mark.finditer(answer))
    lines = _lines(answer[marks[-1].end() :] if marks else answer)
    return lines[:1] if marks and not several else lines


def extract_number(answer: str) -> Decimal | None:
    """The number of an answer: `12`, `The answer is 12.`, `500,000`, `2 * 3 = 6` (6). Where there is no figure, the
    last English numeral up to twenty, which is no part of a larger one. An exponent (`m^2`) does not count. None if
    there is no number."""
    lines = [_plain(line) for line in final_lines(_APART.sub(r"\1\2", answer.translate(_AS_ASCII)))]
    if not lines:
        return None
    alone = _NUMBER.fullmatch(lines[0].rstrip(PUNCTUATION).lstrip(PUNCTUATION.replace(".", "")))
    text = "\n".join(lines)
    found = [alone] if alone else list(_NUMBER.finditer(text))
    if found:
        sign, digits = found[-1].groups()
        value = Decimal(digits.replace(",", ""))
        below = sign in ("-", "\u2212") or (not alone and _MINUS.search(text[: found[-1].start()]))
        return value.copy_negate() if below else value  # unary minus would round to the context's digits
    spelled = list(_NUMERAL.finditer(text))
    *before, word = re.split(r"[ -]|\s+and\s+", spelled[-1][0].lower()) if spelled else [""]
    if word not in _NUMERALS or any(other in ("twenty", *_LARGER) for other in before):
        return None
    value = Decimal(_NUMERALS.index(word))
    return -value if _MINUS.search(text[: spelled[-1].start()]) else value


def _plain(line: str) -> str:
    """A line with its thousands as `_NUMBER` reads them, and without fractions."""
    line = _THOUSANDS.sub(",", line)
    if grouped := _APART_ALONE.match(line.strip(PUNCTUATION)):  # `12 345` and nothing else
        return grouped[0].replace(" ", ",")
    return _LATEX_FRACTION.sub("", line)


def extract_boolean(answer: str) -> bool | None:
    """The verdict of an answer, true/yes or false/no as whole words: the one that the text opens with, if punctuation
    or the end of the line follows it (`No, because …`), else the last one (`TRUE AND FALSE is False`), which `not`
    right before it turns round (`it is not true`). None if there is none."""
    text = "\n".join(final_lines(answer)).lstrip(_WRAPPING)
    opening = _OPENING_VERDICT.match(text)
    verdicts = [("", opening.group(1))] if opening else _VERDICT.findall(text)
    if not verdicts:
        return None
    negated, verdict = verdicts[-1]
    return (verdict.lower() in ("true", "yes")) != bool(negated)


def _alone(line: str) -> bool:
    """Whether a line is one word and no exclamation or lead-in (`Sure!`, `Answer:`)."""
    return len(line.split()) == 1 and line.rstrip("*\"'")[-1:] not in ("!", ":", ",", "?")


def extract_word(answer: str) -> str | None:
    """One word without blanks, quotes and final punctuation taken off: a first line of one word; else, in the last
    line, the last span in back-ticks or the last word."""
    lines = final_lines(answer)
    if not lines:
        return None
    if _alone(lines[0]):
        word = lines[0]
    else:
        spans = _INLINE_CODE.findall(lines[-1])
        word = spans[-1] if spans else lines[-1].split()[-1]
    return word.strip(PUNCTUATION) or None


def extract_snippet(answer: str) -> list[str]:
    """The lines of an answer that is code: those of the last fenced block, else of the whole text, which may be in a
    pair of back-ticks or behind one blank, as plain prompt forms put it. Steps 2 to 4 do not apply: `answer = 3` may be
    a line of the code.
    """
    fences = _FENCE.findall(answer)
    inline = _INLINE_FENCE.fullmatch(answer.strip()) or _INLINE_CODE.fullmatch(answer.strip())
    return snippet_lines(fences[-1] if fences else inline[1] if inline else re.sub(r"\A (?=\S)", "", answer))


def snippet_lines(code: str) -> list[str]:
    """Lines of code without the blanks at their ends and the empty lines around them."""
    lines = [line.rstrip() for line in code.split("\n")]
    filled = [number for number, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def extract_letters(answer: str) -> str | None:
    """A string of letters, written together or apart (`a a b` or `a, a, b` is `aab`): a first line of nothing else;
    else, in the last line, the letters that stand apart at its end, or its last word."""
    lines = final_lines(answer)
    if not lines:
        return None
    first, last = _parts(lines[0]), _parts(lines[-1])
    if _alone(lines[0]) or all(len(part) == 1 for part in first):
        return "".join(first) or None
    apart = len(last)
    while apart > 0 and len(last[apart - 1]) == 1:
        apart -= 1
    return "".join(last[apart:]) if len(last) - apart > 1 else last[-1] or None


def extract_array(answer: str, *, anywhere: bool = True) -> list[Any] | None:
    """A JSON array: the whole text, else the one with which the text begins and that ends its line; else, with
    `anywhere`, the last span from `[` to the next `]` that is one, behind the mark of step 2 or where none is there.
    """
    for text in ("\n".join(final_lines(answer, several=True)), answer):
        opening, spans = _OPENING_ARRAY.match(text), _ARRAY.findall(text) if anywhere else []
        for candidate in (text, opening[1] if opening else "", spans[-1] if spans else ""):
            try:
                value = json.loads(candidate, parse_constant=_no_constant)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, list):
                return value
    return None


def extract_pattern(answer: str) -> str | None:
    """A regular expression: the first line of the text, or its last span in back-ticks, without the wrapping of stars,
    quotes, r"…" or /…/. The mark of step 2 may also be `pattern:` or `regex:`; the full stop that ends such a sentence
    is no part of the pattern.
    """
    fenced = _FENCE.search(answer) is not None
    lines = final_lines(answer, _PATTERN_MARK)
    if not lines:
        return None
    spans = [] if fenced else _INLINE_CODE.findall("\n".join(lines))
    text = spans[-1].strip() if spans else lines[0]
    if not spans and not fenced and _PATTERN_MARK.search(answer) and text.endswith(".") and not text.endswith("\\."):
        text = text[:-1]
    for opening, closing in (("**", "**"), ('r"', '"'), ("r'", "'"), ('"', '"'), ("'", "'"), ("/", "/")):
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)]
    return text


def same_json(a: Any, b: Any) -> bool:
    """Equality of JSON values; unlike Python's, `true` is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[key], b[key]) for key in a)
    return bool(a == b)


def _parts(line: str) -> list[str]:
    return [part.strip(PUNCTUATION) for part in re.split(r"[\s,]+", line.strip(PUNCTUATION))]


def _lines(text: str) -> list[str]:
    return [stripped for line in text.splitlines() if (stripped := line.strip())]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
