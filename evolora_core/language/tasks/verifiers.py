"""The verifiers that a task may name: how an answer is graded against what a row gives.

Each is a section of settings with functions: `complaint(target)` says what is wrong with the answer that a row gives,
`gold(target)` is that answer as a learner reads it, and `verify(target, answer)` grades any text. A row without an
answer has the target None; only verifiers that need none take it.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, field_validator

from evolora_core.engine.strict import Strict
from evolora_core.foreign.files import Unfit
from evolora_core.foreign.patterns import compile_pattern, full_matches
from evolora_core.language.families.answers import extract_number, extract_snippet, final_lines, same_json
from evolora_core.language.families.base import CORRECT, NO_ANSWER, Grade, wrong
from evolora_core.language.families.matching import TIME_LIMIT, TIMEOUT
from evolora_core.language.families.verdicts import number_of, number_text

_WRAPPING = "`*\"' "


class Verifier(Strict):
    """What all have. labelled: whether it needs an answer in every row."""

    kind: str
    labelled: ClassVar[bool] = True

    def complaint(self, target: Any) -> str | None:
        """What is wrong with a target, or None."""
        return None if isinstance(target, str) and target.strip() else "must be text"

    def has_gold(self, target: Any) -> bool:
        """Whether a target is a right answer, and does not only say what one looks like."""
        return target is not None

    def gold(self, target: Any) -> str:
        """The right answer as text."""
        return str(target)

    def verify(self, target: Any, answer: str) -> Grade:
        """The grade of an answer that is not blank."""
        raise NotImplementedError


class Exact(Verifier):
    """The answer is the text of the row, but for white space, quotes around it and, unless asked, case."""

    kind: Literal["exact"]
    case: bool = Field(False, description="whether capitals count")

    def verify(self, target: Any, answer: str) -> Grade:
        """The last thing that was said counts, or the first line where that is all there is to the answer."""
        wanted = self._plain(str(target))
        lines = final_lines(answer)
        if not lines:
            return NO_ANSWER
        said = {self._plain(text) for text in (lines[0], " ".join(lines))}
        return CORRECT if wanted in said else wrong()

    def _plain(self, text: str) -> str:
        plain = " ".join(text.split()).strip(_WRAPPING).removesuffix(".")
        return plain if self.case else plain.casefold()


class Number(Verifier):
    """The number of the answer is that of the row, within a tolerance."""

    kind: Literal["number"]
    tolerance: float | None = Field(
        None, ge=0, description="largest difference; none: half of the last decimal that the row gives"
    )
    relative: float = Field(0.0, ge=0, le=1, description="largest difference as a share of the row's number")

    def complaint(self, target: Any) -> str | None:
        """As for numbers of holdout files."""
        return None if number_of(target) is not None else "must be a number"

    def gold(self, target: Any) -> str:
        """Integers without a decimal point."""
        return number_text(target)

    def verify(self, target: Any, answer: str) -> Grade:
        """The number that the answer ends with, if it is not one alone."""
        found, wanted = extract_number(answer), number_of(target)
        if found is None or wanted is None:
            return NO_ANSWER
        exponent = wanted.normalize().as_tuple().exponent
        rounded = Decimal((0, (5,), exponent - 1)) if isinstance(exponent, int) and exponent < 0 else Decimal(0)
        within = rounded if self.tolerance is None else Decimal(str(self.tolerance))
        within = max(within, abs(wanted) * Decimal(str(self.relative)))
        return CORRECT if abs(found - wanted) <= within else wrong()


class Choice(Verifier):
    """The answer names one of the options, the row's."""

    kind: Literal["choice"]
    options: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        min_length=2, max_length=100, description="all that may be answered"
    )

    @field_validator("options")
    @classmethod
    def _told_apart(cls, options: list[str]) -> list[str]:
        folded = [option.strip().casefold() for option in options]
        if len(set(folded)) < len(folded) or "" in folded:
            raise ValueError("two options are the same, or one is blank")
        return options

    def complaint(self, target: Any) -> str | None:
        """It has to be an option."""
        if isinstance(target, str) and target.strip().casefold() in self._folded():
            return None
        return f"must be one of {', '.join(self.options)[:200]}"

    def verify(self, target: Any, answer: str) -> Grade:
        """A first line that is an option; else the option that is named last."""
        lines, options = final_lines(answer), self._folded()
        if not lines:
            return NO_ANSWER
        first = lines[0].strip(_WRAPPING + ".()").casefold()
        found = first if first in options else self._last(" ".join(lines).casefold(), options)
        if found is None:
            return NO_ANSWER
        return CORRECT if found == str(target).strip().casefold() else wrong()

    def _folded(self) -> list[str]:
        return [option.strip().casefold() for option in self.options]

    @staticmethod
    def _last(text: str, options: Sequence[str]) -> str | None:
        """The option that ends last in a text, as a whole word; of two that end together the longer."""
        found: list[tuple[int, int, str]] = []
        for option in options:
            at = text.rfind(option)
            while at >= 0:
                end = at + len(option)
                if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                    found.append((end, len(option), option))
                    break
                at = text.rfind(option, 0, end - 1)
        return max(found)[2] if found else None


class Json(Verifier):
    """The answer is JSON that fits a schema, and has the row's values where a row gives an answer."""

    model_config = ConfigDict(serialize_by_alias=True)

    kind: Literal["json"]
    schema_: dict[str, Any] | None = Field(None, alias="schema", description="JSON Schema that every answer has to fit")
    keys: list[str] | None = Field(None, description="keys whose values have to be the row's; none: the whole value")
    labelled: ClassVar[bool] = False

    @field_validator("schema_")
    @classmethod
    def _sound(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        if schema is not None:
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                raise ValueError(f"schema: {error.message}") from None
        return schema

    def complaint(self, target: Any) -> str | None:
        """It has to be JSON, fit the schema and have the keys. No answer is fine where there is a schema."""
        if target is None:
            return (
                None if self.schema_ is not None else "must be JSON; without a schema nothing else says what is right"
            )
        try:
            value = json.loads(target) if isinstance(target, str) else target
        except (ValueError, RecursionError):
            return "must be JSON"
        if self.keys is not None and not (isinstance(value, dict) and set(self.keys) <= set(value)):
            return f"must be an object with {', '.join(self.keys)}"
        return self._misfit(value)

    def gold(self, target: Any) -> str:
        """On one line."""
        return json.dumps(json.loads(target) if isinstance(target, str) else target, ensure_ascii=False)

    def verify(self, target: Any, answer: str) -> Grade:
        """The whole text, its last fenced block, or the last value in brackets."""
        found = extract_json(answer)
        if found is None:
            return NO_ANSWER
        if (misfit := self._misfit(found[0])) is not None:
            return Grade(0.0, False, misfit[:200])
        if target is None:
            return CORRECT
        wanted = json.loads(target) if isinstance(target, str) else target
        if self.keys is None:
            return CORRECT if same_json(found[0], wanted) else wrong()
        given = found[0] if isinstance(found[0], dict) else {}
        hits = [key in given and same_json(given[key], wanted[key]) for key in self.keys]
        return CORRECT if all(hits) else wrong(sum(hits) / len(hits))

    def _misfit(self, value: Any) -> str | None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import ValidationError
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        if self.schema_ is None:
            return None
        try:
            Draft202012Validator(self.schema_, registry=Registry()).validate(value)  # nothing is fetched
        except ValidationError as error:
            return f"does not fit the schema: {error.message}"
        except Unresolvable as error:
            return f"cannot be held against the schema, which refers to {error}"
        except RecursionError:
            return "is nested too deeply"
        return None


class Regex(Verifier):
    """The answer, without quotes around it, fits a pattern: that of the task, or that of the row."""

    kind: Literal["regex"]
    pattern: str | None = Field(None, max_length=1000, description="pattern of every row; none: each row gives its own")
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
        """The first line of what was said in the end."""
        lines = final_lines(answer)
        if not lines:
            return NO_ANSWER
        pattern = self.pattern if self.pattern is not None else str(target)
        try:
            (fits,) = full_matches(compile_pattern(pattern), [lines[0].strip(_WRAPPING)], TIME_LIMIT)
        except TimeoutError:
            return TIMEOUT
        return CORRECT if fits else wrong()


class ContainsAll(Verifier):
    """The answer contains every word of the row, in any order."""

    kind: Literal["contains-all"]
    separator: str = Field(",", min_length=1, max_length=10, description="what stands between the words in a row")
    case: bool = Field(False, description="whether capitals count")

    def complaint(self, target: Any) -> str | None:
        """At least one word."""
        return None if self._words(target) else "must be words"

    def gold(self, target: Any) -> str:
        """The words as the row gives them."""
        return f"{self.separator} ".join(self._words(target, fold=False))

    def verify(self, target: Any, answer: str) -> Grade:
        """The score is the share of the words."""
        text = answer if self.case else answer.casefold()
        words = self._words(target)
        hits = sum(word in text for word in words)
        return CORRECT if hits == len(words) else wrong(hits / len(words))

    def _words(self, target: Any, *, fold: bool = True) -> list[str]:
        parts = target.split(self.separator) if isinstance(target, str) else target if isinstance(target, list) else []
        words = [" ".join(part.split()) for part in parts if isinstance(part, str)]
        return [word if self.case or not fold else word.casefold() for word in words if word]


def extract_json(answer: str) -> tuple[Any] | None:
    """The JSON value of an answer, in a tuple: its last fenced block or all of it, else the last object or array."""
    text = "\n".join(extract_snippet(answer))
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    try:
        return (json.loads(text, parse_constant=_no_constant),)
    except (ValueError, RecursionError):
        pass
    found, at = None, 0
    while (start := min((place for mark in "{[" if (place := text.find(mark, at)) >= 0), default=-1)) >= 0:
        try:
            value, at = decoder.raw_decode(text, start)
            found = (value,)
        except (ValueError, RecursionError):
            at = start + 1
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _kind(settings: Any) -> str:
    """By what a section is told apart."""
    return str(settings.get("kind", "")) if isinstance(settings, dict) else str(getattr(settings, "kind", ""))


AnyVerifier = Annotated[
    Annotated[Exact, Tag("exact")]
    | Annotated[Number, Tag("number")]
    | Annotated[Choice, Tag("choice")]
    | Annotated[Json, Tag("json")]
    | Annotated[Regex, Tag("regex")]
    | Annotated[ContainsAll, Tag("contains-all")],
    Discriminator(
        _kind,
        custom_error_type="verifier",
        custom_error_message="kind: choose from exact, number, choice, json, regex, contains-all",
    ),
]
