"""`json`: the answer is JSON that fits a schema, or has a row's values."""

import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar, Literal

import regex
from pydantic import ConfigDict, Field, field_validator

from evolora_core.language.families.answers import extract_snippet, same_json
from evolora_core.language.families.base import CORRECT, NO_ANSWER, Grade, wrong
from evolora_core.language.families.matching import TIME_LIMIT
from evolora_core.language.tasks.base import Verifier

MOST_FAILED = 200  # brackets that begin no JSON: reading from each of them takes as long as the text


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
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012

        if schema is not None:
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                raise ValueError(f"schema: {error.message}") from None
            if "'patternProperties'" in (written := repr(schema)) and "'unevaluatedProperties'" in written:
                raise ValueError(
                    "schema: has `unevaluatedProperties` beside `patternProperties`, whose patterns would "
                    "have no time limit; write `additionalProperties`"
                )
            if "'$id'" not in written:  # with one, references are relative to it
                resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
                for reference in _references(schema):
                    try:
                        resolver.lookup(reference)
                    except Unresolvable:
                        raise ValueError(f"schema: refers to {reference}, which it does not have") from None
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
        from jsonschema.exceptions import ValidationError
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        if self.schema_ is None:
            return None
        try:
            _validators()(self.schema_, registry=Registry()).validate(value)  # nothing is fetched
        except ValidationError as error:
            return f"does not fit the schema: {error.message}"
        except Unresolvable as error:
            return f"cannot be held against the schema, which refers to {error}"
        except RecursionError:
            return "is nested too deeply"
        except Exception as error:  # an integer too long for a float, a pattern that takes for ever
            return f"cannot be held against the schema ({type(error).__name__}: {error})"
        return None


@cache
def _validators() -> Any:
    """Those of jsonschema, whose patterns have a time limit."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def found(wanted: str, text: str) -> bool:
        return regex.compile(wanted).search(text, timeout=TIME_LIMIT) is not None

    def pattern(validator: Any, wanted: str, value: Any, _: Any) -> Iterator[ValidationError]:
        if validator.is_type(value, "string") and not found(wanted, value):
            yield ValidationError(f"{value!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, patterns: Any, value: Any, _: Any) -> Iterator[ValidationError]:
        for wanted, own in patterns.items() if validator.is_type(value, "object") else ():
            for key, inner in value.items():
                if found(wanted, key):
                    yield from validator.descend(inner, own, path=key, schema_path=wanted)

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        for key, inner in value.items() if validator.is_type(value, "object") else ():
            if key in schema.get("properties", {}) or any(
                found(own, key) for own in schema.get("patternProperties", ())
            ):
                continue
            if allowed is False:
                yield ValidationError(f"{key!r} is no property of it")
            else:
                yield from validator.descend(inner, allowed, path=key)

    own = {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
    }
    return extend(Draft202012Validator, own)


def extract_json(answer: str) -> tuple[Any] | None:
    """The JSON value of an answer, in a tuple: its last fenced block or all of it, else the last object or array."""
    text = "\n".join(extract_snippet(answer))
    decoder = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once)
    try:
        return (decoder.decode(text),)
    except (ValueError, RecursionError):
        pass
    found, at, failed = None, 0, 0
    while (start := min((place for mark in "{[" if (place := text.find(mark, at)) >= 0), default=-1)) >= 0:
        try:
            value, at = decoder.raw_decode(text, start)
            found = (value,)
        except (ValueError, RecursionError):
            at, failed = start + 1, failed + 1
            if failed == MOST_FAILED:
                break
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand there once: of two values neither is the answer."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large for a number")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _references(node: Any) -> Iterator[str]:
    """Every `$ref` of a schema."""
    if isinstance(node, dict) and isinstance(node.get("$ref"), str):
        yield node["$ref"]
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for own in inner:
        yield from _references(own)
