"""The verifiers that a task may name; those of JSON and of code are beside this file."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from evolora_core.foreign.files import Unfit
from evolora_core.foreign.patterns import compile_pattern, full_matches
from evolora_core.language.families.answers import final_lines, spoken
from evolora_core.language.families.base import CORRECT, NO_ANSWER, Grade, wrong
from evolora_core.language.families.matching import TIME_LIMIT, TIMEOUT
from evolora_core.language.families.numbers import extract_number
from evolora_core.language.families.unspaced import MARKS, spaced, unspaced
from evolora_core.language.families.verdicts import number_complaint, number_of, number_text
from evolora_core.language.tasks.base import Verifier, spelled
from evolora_core.language.tasks.code_verifier import Code
from evolora_core.language.tasks.json_verifier import Json

_WRAPPING = "`*\"' \u2018\u2019\u201c\u201d"
_AROUND = ".()\u3002\uff08\uff09"  # an option that is all that a line says
# What ends an option that an answer opens with: a mark, or a dash that stands apart (`B - since …`).
_ENDS = re.compile(
    rf"[`*\"' \u2018\u2019\u201c\u201d]*[.,:;!)\u2014{MARKS}]|[`*\"'\u2018\u2019\u201c\u201d]*\s+[-\u2013]\s"
)
_PAIRS = dict(zip("`*\"'\u2018\u201c", "`*\"'\u2019\u201d", strict=True))
# The last are Chinese and Japanese: 不, 没, 非, 未, 無 and 无.
_NOT = re.compile(
    r"(?:\bnot|n['\u2019]t)\s+$|\bnon-$|[\u4e0d\u6ca1\u6c92\u975e\u672a\u7121\u65e0]\u662f?\s*$", re.IGNORECASE
)
_SIGNED = re.compile(r"(?<!\w)[-\u2212]$|\^$")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,99}")


def composed(text: str) -> str:
    """A text with each accent in the character that it belongs to, as most files have it."""
    return unicodedata.normalize("NFC", text)


def _legible(text: str) -> str:
    """A text as answers and right answers are compared."""
    return spaced(composed(text))


class Worded(Verifier):
    """Its answers are text, whatever type a table gives them."""

    def target(self, answer: Any, row: Mapping[str, Any]) -> Any:
        """The answer as text; JSON's `1` and `true` too."""
        return spelled(answer) if isinstance(answer, bool | int | float) else answer

    def complaint(self, target: Any) -> str | None:
        """Text, or what becomes text: holdout files give targets as JSON has them."""
        return super().complaint(self.target(target, {}))

    def gold(self, target: Any) -> str:
        """Without outer white space, which no verifier of text reads."""
        return spelled(target).strip()


class Exact(Worded):
    """The answer is the text of the row, but for white space, quotes around it and, unless asked, case."""

    kind: Literal["exact"]
    case: bool = Field(False, description="whether capitals count")

    def verify(self, target: Any, answer: str) -> Grade:
        """Correct if the final lines, together or the first alone, or all of the answer, are the target."""
        wanted = self._plain(spelled(target))
        lines = final_lines(answer)
        if not lines:
            return NO_ANSWER
        said = {self._plain(text) for text in (lines[0], " ".join(lines), answer)}
        return CORRECT if wanted in said else wrong()

    def _plain(self, text: str) -> str:
        plain = _unwrapped(" ".join(_legible(text).split()))
        return plain if self.case else plain.casefold()


def _unwrapped(text: str) -> str:
    """A text without the pairs of quotes, stars and back-ticks around it, and without the full stop that ends it, in or
    behind them. A mark on one side alone belongs to the text, as in `*args`.
    """
    plain = text
    while True:
        if len(plain) > 2 and _PAIRS.get(plain[0]) == plain[-1]:
            plain = plain[1:-1].strip()
        elif len(plain) > 1 and plain[-1] in ".\u3002" and plain[-2] not in ".\u3002":
            plain = plain[:-1].strip()
        else:
            return plain


class Number(Verifier):
    """The number of the answer is that of the row, within a tolerance."""

    kind: Literal["number"]
    tolerance: float | None = Field(
        None, ge=0, description="largest difference; none: half of the last decimal that the row gives"
    )
    relative: float = Field(0.0, ge=0, le=1, description="largest difference as a share of the row's number")

    def target(self, answer: Any, row: Mapping[str, Any]) -> Any:
        """An integer is one, whether a table had it as text or as a number."""
        return int(answer) if isinstance(answer, str) and _INTEGER.fullmatch(answer) else answer

    def complaint(self, target: Any) -> str | None:
        """What is wrong with a target, by the rule for numbers in holdout files."""
        return number_complaint(target)

    def gold(self, target: Any) -> str:
        """Integers without a decimal point."""
        return number_text(target)

    def verify(self, target: Any, answer: str) -> Grade:
        """The number that the answer ends with, if it is not one alone."""
        found, wanted = extract_number(answer), number_of(target)
        if found is None or wanted is None:
            return NO_ANSWER
        # A number of JSON does not say how it was written: 12.0 is 12.
        exponent = (wanted if isinstance(target, str) else wanted.normalize()).as_tuple().exponent
        if isinstance(target, float) and isinstance(exponent, int):
            # The last digits of 0.30000000000000004 are rounding.
            exponent = max(exponent, min(-6, wanted.adjusted() - 6))
        rounded = Decimal((0, (5,), exponent - 1)) if isinstance(exponent, int) and exponent < 0 else Decimal(0)
        within = rounded if self.tolerance is None else Decimal(str(self.tolerance))
        within = max(within, abs(wanted) * Decimal(str(self.relative)))
        return CORRECT if abs(found - wanted) <= within else wrong()


class Choice(Worded):
    """The answer names one of the options, the row's."""

    kind: Literal["choice"]
    options: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        min_length=2,
        max_length=100,
        description="all that may be answered, such as ['yes', 'no']; the row's answer is one of them",
    )

    @field_validator("options")
    @classmethod
    def _told_apart(cls, options: list[str]) -> list[str]:
        folded = [_folded(option) for option in options]
        if len(set(folded)) < len(folded) or "" in folded:
            raise ValueError("two options are the same, or one is blank")
        return options

    def complaint(self, target: Any) -> str | None:
        """It has to be an option."""
        if _folded(spelled(target)) in self._folded():
            return None
        return f"must be one of {', '.join(self.options)[:200]}"

    def verify(self, target: Any, answer: str) -> Grade:
        """A first line that is an option, or begins with one and a punctuation mark (`B. It is …`, `No, since …`); else
        the option that is named last. An option of one letter is looked for as it is written, then in the other case,
        but for `a` and `i`, which are words.
        """
        lines = final_lines(_legible(answer))
        if not lines:
            return NO_ANSWER
        found = self._opening(lines[0]) or self._last(" ".join(lines))
        if found is None:
            return NO_ANSWER
        return CORRECT if found == _folded(spelled(target)) else wrong()

    def _folded(self) -> list[str]:
        return [_folded(option) for option in self.options]

    def _opening(self, line: str) -> str | None:
        alone, begun = line.strip(_WRAPPING + _AROUND).casefold(), line.lstrip(_WRAPPING + "(\uff08").casefold()
        for option in sorted(self._folded(), key=len, reverse=True):
            ended = begun.startswith(option) and _ENDS.match(begun, len(option))
            if alone == option or (ended and not _within_number(option, begun, len(option))):
                return option
        return None

    def _last(self, text: str) -> str | None:
        options = [_legible(option).strip() for option in self.options]
        as_written = _last_of([option if len(option) == 1 else option.casefold() for option in options], text)
        in_any_case = [option for option in self._folded() if option not in ("a", "i")]
        return (as_written or _last_of(in_any_case, text.casefold()) or "").casefold() or None


def _within_number(option: str, text: str, end: int) -> bool:
    """Whether the option that ends at `end` is part of a longer number or ratio, as 1 is of 1.5 and of 2:1."""
    before = text[: end - len(option)]
    return bool(
        (option[-1].isdigit() and re.match(r"[.,:/][0-9]", text[end : end + 2]))
        or (option[0].isdigit() and re.search(r"[0-9][.,:/]$", before[-2:]))
    )


def _folded(option: str) -> str:
    return _legible(option).strip().casefold()


def _goes_on(edge: str, beside: str) -> bool:
    """Whether a word goes on beside its first or last character."""
    return beside.isalnum() and not unspaced(edge)


def _last_of(options: Sequence[str], text: str) -> str | None:
    """The option that ends last in a text, as a whole word, not right behind `not` or `non-`, and no number with a sign
    or as an exponent; of two that end together the longer. One of a single letter has to be written as it is, all
    others are looked for without regard to case.
    """
    folded = text.casefold()
    found: list[tuple[int, int, str]] = []
    for option in options:
        read = text if len(option) == 1 and len(folded) == len(text) else folded
        at = read.rfind(option)
        while at >= 0:
            end = at + len(option)
            goes_on = _goes_on(option[0], read[at - 1 : at]) or _goes_on(option[-1], read[end : end + 1])
            within = goes_on or _within_number(option, read, end)
            before = read[max(0, at - 8) : at]
            if not within and not _NOT.search(before) and not (option[0].isdigit() and _SIGNED.search(before)):
                found.append((end, len(option), option))
                break
            at = read.rfind(option, 0, end - 1)
    return max(found)[2] if found else None


class Regex(Worded):
    """The answer, without quotes around it, fits a pattern: that of the task, or that of the row."""

    kind: Literal["regex"]
    pattern: str | None = Field(
        None,
        max_length=1000,
        description="pattern that a whole answer has to fit; none: each row has its own in the answer column",
    )
    labelled: ClassVar[bool] = False

    @field_validator("pattern")
    @classmethod
    def _sound(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                compile_pattern(pattern)
            except Unfit as error:
                raise ValueError(str(error)) from None
        return pattern

    def complaint(self, target: Any) -> str | None:
        """With a pattern of the task it is an answer, which has to fit; else it is a pattern."""
        target = self.target(target, {})
        if self.pattern is None:
            try:
                compile_pattern(target if isinstance(target, str) else "(")
            except Unfit:
                return "must be a regular expression"
            return None
        if target is None or (isinstance(target, str) and self.verify(None, target).correct):
            return None
        return "does not fit the pattern"

    def has_gold(self, target: Any) -> bool:
        """A pattern of a row is no answer."""
        return target is not None and self.pattern is not None

    def verify(self, target: Any, answer: str) -> Grade:
        """The first line of what was said in the end, with what stands around it or without, or all of the answer."""
        lines = final_lines(answer)
        if not lines:
            return NO_ANSWER
        pattern = self.pattern if self.pattern is not None else spelled(target)
        try:
            read = [lines[0], lines[0].strip("`* "), lines[0].strip(_WRAPPING), _unwrapped(lines[0]), answer.strip()]
            fits = full_matches(compile_pattern(pattern), read, TIME_LIMIT)
        except TimeoutError:
            return TIMEOUT
        except Unfit as error:
            return Grade(0.0, False, str(error))
        return CORRECT if any(fits) else wrong()


class ContainsAll(Worded):
    """The answer contains every word of the row, in any order; a part of a longer word or number is not that word."""

    kind: Literal["contains-all"]
    separator: str = Field(",", min_length=1, max_length=10, description="what stands between the words in a row")
    case: bool = Field(False, description="whether capitals count")

    def target(self, answer: Any, row: Mapping[str, Any]) -> Any:
        """Numbers in a list are words too."""
        spell = super().target
        return [spell(part, row) for part in answer] if isinstance(answer, list) else spell(answer, row)

    def complaint(self, target: Any) -> str | None:
        """At least one word, and nothing else in a list."""
        target = self.target(target, {})
        mixed = isinstance(target, list) and not all(isinstance(part, str) for part in target)
        return None if self._words(target) and not mixed else "must be words"

    def gold(self, target: Any) -> str:
        """The words as the row gives them."""
        return f"{self.separator} ".join(self._words(self.target(target, {})))

    def verify(self, target: Any, answer: str) -> Grade:
        """The score is the share of the words."""
        text = self._plain(spoken(answer))
        words = [self._plain(word) for word in self._words(self.target(target, {}))]
        hits = sum(re.search(_whole(word), text) is not None for word in words)
        return CORRECT if hits == len(words) else wrong(hits / len(words))

    def _plain(self, text: str) -> str:
        plain = " ".join(_legible(text).split())
        return plain if self.case else plain.casefold()

    def _words(self, target: Any) -> list[str]:
        parts = target.split(self.separator) if isinstance(target, str) else target if isinstance(target, list) else []
        words = [" ".join(composed(part).split()) for part in parts if isinstance(part, str)]
        return [word for word in words if word]


def _whole(word: str) -> str:
    """A pattern of the word where no longer word or number holds it: 12 is not in 12.5, 1:12, 12,000 or -12. In 12,13
    it is, as in a list.
    """
    before = r"(?<![0-9][.:/])(?<![0-9],(?=[0-9]{3}(?!\w)))(?<!\A[-\u2212.])(?<![^\w.][-\u2212.])(?<!\^)"
    behind = r"(?![.:/^][0-9]|,[0-9]{3}(?!\w))"
    before, behind = before if word[0].isdigit() else "", behind if word[-1].isdigit() else ""
    begins, ends = "" if unspaced(word[0]) else r"(?<!\w)", "" if unspaced(word[-1]) else r"(?!\w)"
    return rf"{begins}{before}{re.escape(word)}{ends}{behind}"


def _kind(settings: Any) -> str:
    """The `kind` of a section, which tells its model."""
    return str(settings.get("kind", "")) if isinstance(settings, dict) else str(getattr(settings, "kind", ""))


AnyVerifier = Annotated[
    Annotated[Exact, Tag("exact")]
    | Annotated[Number, Tag("number")]
    | Annotated[Choice, Tag("choice")]
    | Annotated[Json, Tag("json")]
    | Annotated[Regex, Tag("regex")]
    | Annotated[ContainsAll, Tag("contains-all")]
    | Annotated[Code, Tag("code")],
    Discriminator(
        _kind,
        custom_error_type="verifier",
        custom_error_message="its `kind` is one of exact, number, choice, json, regex, contains-all, code; set it",
    ),
]
