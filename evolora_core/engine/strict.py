"""The base of every configuration model, and the reader of YAML files, whose errors name file, line and key."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Tag, ValidationError, ValidationInfo, field_validator

from evolora_core.errors import ConfigError
from evolora_core.foreign.documents import DEEPEST, check_depth, check_plain, read_json, read_yaml
from evolora_core.foreign.files import read_text
from evolora_core.foreign.nearest import nearest_or_all
from evolora_core.foreign.text import one_line, one_value

LONGEST_FILE = 200 * 1024  # bytes; the largest suite of ours has four thousand
LONGEST_OVERRIDE = 10_000  # characters
# `json_schema_extra` of a setting that came after suites were hashed without it
LATER: dict[str, Any] = {"later": True}


class Strict(BaseModel):
    """An immutable model in which an unknown key is an error, and true, false, NaN and infinity are no numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        kinds = _kinds(field.annotation)
        if _has_boolean(value) and kinds & {int, float} and not kinds & {bool, Any}:
            raise ValueError("true and false are no numbers")
        return value


Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    check_plain(value)
    return value


Seed = Annotated[int, Field(ge=0, lt=2**63)]  # what the store's columns hold
Changes = Annotated[dict[str, Any], AfterValidator(_plain)]  # settings, nested as in their section
Decay = Annotated[float, Field(ge=0, lt=1)]


def repeated(values: Sequence[Value]) -> Value | None:
    """The first value that stands twice, or None."""
    return next((value for number, value in enumerate(values) if value in values[:number]), None)


class _Loader(yaml.SafeLoader):
    """YAML with the numbers of its version 1.2, in which `5e-5` is one; PyYAML takes it for text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _has_boolean(value: Any) -> bool:
    """Whether a value is true or false, or a list or mapping with one of them."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, bool) or any(map(_has_boolean, inner))


def _kinds(annotation: Any) -> set[Any]:
    """The plain types that an annotation is made of."""
    inner = get_args(annotation)
    return set().union(*map(_kinds, inner)) if inner else ({annotation} if annotation.__hash__ else set())


@dataclass(frozen=True)
class Document:
    """The settings in a file, with overrides, before any model has checked them, and where each stands."""

    values: dict[str, Any]
    path: Path
    lines: Mapping[tuple[str, ...], int]
    overrides: Sequence[str]


def load_yaml(path: Path, model: type[Model], overrides: Sequence[str] = ()) -> Model:
    """Read `path` as a `model`; `overrides` are dotted settings such as `ecology.generations=4`.

    Raises ConfigError with the file, the line, the key and the nearest valid key or the reason.
    """
    return checked(read_settings(path, overrides), model)


def read_settings(path: Path, overrides: Sequence[str] = ()) -> Document:
    """Read the settings in `path`, whatever they are of. Raises ConfigError for what is no mapping in YAML."""
    # What we wrote ourselves is JSON, which YAML reads otherwise where text is escaped.
    kind = Path(path).suffix
    if kind not in (".yaml", ".yml", ".json"):
        raise ConfigError(
            f"{path}: settings are in a file that ends in .yaml; a data set or a Python file is named under a suite's "
            "`tasks`, as docs/extending.md shows"
        )
    written = kind == ".json"
    try:
        text = read_text(Path(path), LONGEST_FILE)
        values, node = (read_json(text), None) if written else read_yaml(text, _Loader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name an existing YAML file") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not valid JSON ({error.msg}); run the suite's file again") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        reason = one_line(getattr(error, "problem", None) or error, 200)
        if "cannot start any token" in reason and "\t" in "".join(text.splitlines()[line - 1 : line]):
            reason = "a tab; indent with blanks"
        raise ConfigError(f"{path}:{line}: not valid YAML ({reason})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:1: expected a mapping of keys at the top of the file")
    try:
        lines = _lines(node)
    except ConfigError as error:
        raise ConfigError(f"{path}:{error}") from None
    for override in overrides:
        _apply(values, override)
    try:
        check_depth(values)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return Document(values, path, lines, overrides)


def checked(document: Document, model: type[Model]) -> Model:
    """The document as a `model`. Raises ConfigError with the place of the first fault."""
    try:
        return model.model_validate(document.values)
    except ValidationError as error:
        raise ConfigError(_explain(error, model, document)) from error


def stated(model: BaseModel) -> dict[str, Any]:
    """The settings as JSON, for hashes and files: a setting that came LATER is left out where it stands at its default,
    so that what was hashed, or written, before it came is still the same.
    """
    kept: dict[str, Any] = model.model_dump(mode="json")
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if (field.json_schema_extra or {}) == LATER and value == field.get_default(call_default_factory=True):
            del kept[name]
        elif name in kept:
            kept[name] = _stated(value, kept[name])
    return kept


def _stated(value: Any, dumped: Any) -> Any:
    if isinstance(value, BaseModel):
        return stated(value)
    if isinstance(value, list | tuple):
        return [_stated(one, own) for one, own in zip(value, dumped, strict=True)]
    if isinstance(value, dict):
        return {key: _stated(one, own) for (key, own), one in zip(dumped.items(), value.values(), strict=True)}
    return dumped


def config_hash(model: BaseModel) -> str:
    """First 8 hex digits of the SHA-256 of the model's settings as canonical JSON."""
    return document_hash(stated(model))


def document_hash(document: dict[str, Any]) -> str:
    """The same hash of settings as they were written, before this version interprets them."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one dotted key of nested `values` in place."""
    name, equals, text = override.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {one_value(override)}: expected KEY=VALUE, for example ecology.generations=4")
    *parents, last = name.strip().split(".")
    if len(override) > LONGEST_OVERRIDE or len(parents) > DEEPEST:
        raise ConfigError(f"--set {one_value(override)}: is too long; write it into the suite's file")
    for parent in parents:
        inner = values.get(parent, {})
        if not isinstance(inner, dict):
            what = (
                "a list; write all of it, or change it in the file"
                if isinstance(inner, list)
                else "a value without keys"
            )
            raise ConfigError(f"--set {override}: '{parent}' is {what}")
        values[parent] = dict(inner)  # an alias of it stays as it was
        values = values[parent]
    try:
        values[last] = read_yaml(text, _Loader)[0]
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is not valid YAML") from error


def _lines(node: yaml.Node | None, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    """Line number (from 1) of every key and list entry of a YAML document."""
    found: dict[tuple[str, ...], int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value)[:200])
            if here in found:
                raise ConfigError(f"{key.start_mark.line + 1}: key '{'.'.join(here)}' stands twice; keep one")
            found[here] = key.start_mark.line + 1
            found |= _lines(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            here = (*path, str(index))
            found[here] = value.start_mark.line + 1
            found |= _lines(value, here)
    return found


def _explain(error: ValidationError, model: type[BaseModel], document: Document) -> str:
    """The first fault of a validation as one line with its place."""
    fault = _first(error)
    path, _ = _followed(model, _location(fault))
    path = path or _named(fault["msg"].removeprefix("Value error, "), document.values)
    return _placed(path, explain_fault(error, model), document)


def explain_rule(reason: str, document: Document) -> str:
    """The message of a rule checked later, after the place of the key that it begins with, or after the file name."""
    path = _named(reason, document.values)
    return _placed(path, reason, document) if path else f"{document.path}: {reason}"


def _placed(path: tuple[str, ...], reason: str, document: Document) -> str:
    """A reason behind its place: the override that set the key, or the file and the line, with the overrides of keys
    below it, as either may be at fault.
    """
    name = ".".join(path)
    keys = [text.partition("=")[0].strip() for text in document.overrides]
    if setting := next((key for key in keys if f"{name}.".startswith(f"{key}.")), None):
        return f"--set {setting}: {reason.removeprefix(f'{setting}: ')}"
    below = [f" --set {key}" for key in dict.fromkeys(keys) if not name or key.startswith(f"{name}.")]
    with_them = f" with{','.join(below)}" if below else ""
    return f"{document.path}:{_nearest_line(path, document.lines)}{with_them}: {reason}"


def _named(reason: str, values: Any) -> tuple[str, ...]:
    """Path of the key that a message begins with; () if it begins with none."""
    path = tuple(reason.partition(":")[0].split("."))
    for part in path:
        if not isinstance(values, dict) or part not in values:
            return ()
        values = values[part]
    return path


def explain_fault(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault of a validation in words: the key and the nearest valid one, or the reason."""
    fault = _first(error)
    given_path = _location(fault)
    path, _ = _followed(model, given_path)
    name = ".".join(path)
    if fault["type"] == "extra_forbidden":
        _, valid = _followed(model, given_path[:-1])
        return f"unknown key '{name}'; {nearest_or_all(path[-1], valid)}"
    if fault["type"] == "missing":
        return f"key '{name}' is missing; add it"
    reason = fault["msg"].removeprefix("Value error, ")
    where = f"key '{name}': " if name else ""
    given = fault.get("input")
    if fault["type"] == "string_type" and isinstance(given, bool | int | float):  # `yes` and `3` of YAML
        reason = "must be text; put it in quotes"
    elif fault["type"] == "list_type":
        reason = f"must be a list; {'put `- ` before each entry' if isinstance(given, dict) else 'put it in brackets'}"
    elif fault["type"] == "string_pattern_mismatch" and (name_like := _name_like(str(given), fault["ctx"]["pattern"])):
        reason = f"must be lower-case letters, digits and '-', beginning with a letter, such as {name_like!r}"
    got = "" if isinstance(given, dict) else f" (got {one_value(given)})"  # a whole section says nothing
    return f"{where}{reason[0].lower()}{reason[1:]}{got}"


def _name_like(given: str, pattern: str) -> str:
    """What was meant, written as a pattern of names wants it; "" where that makes none."""
    written = re.sub(r"[^a-z0-9]+", "-", given.lower()).strip("-").lstrip("0123456789-")
    return written if written and re.match(pattern, written) else ""


def _first(error: ValidationError) -> Any:
    """An unknown key if there is one, since it may be the missing one."""
    return min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")


def _location(fault: Any) -> tuple[str, ...]:
    """Where a fault is, without pydantic's tags for plain types, such as those of `float | list[float]`."""
    parts = tuple(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":  # it ends in a key that may be called anything
        return parts
    if parts[-1:] in (("bool",), ("int",), ("float",), ("str",)):
        parts = parts[:-1]
    return tuple(part for part in parts if not part.startswith("list["))


def _nearest_line(path: tuple[str, ...], lines: Mapping[tuple[str, ...], int]) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _followed(model: type[BaseModel], path: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """The path as the file has it, without the tags by which pydantic names the models of a union, and the valid keys
    of the sub-model that it leads to.
    """
    shown: list[str] = []
    keys = list(model.model_fields)
    named, tagged = False, dict[str, type[BaseModel]]()
    for part in path:
        if part in tagged:
            keys, model = list(tagged[part].model_fields), tagged[part]
            tagged = {}
            continue
        shown.append(part)
        if named or part.isdigit():  # a name of the user's own, in a mapping of models, or an entry of a list of models
            named = False
            continue
        field = model.model_fields.get(part)
        named = field is not None and get_origin(field.annotation) is dict
        inner = _models(field.annotation) if field else {}  # of `Model`, `Model | None`, a list, or a union with tags
        tagged = {tag: kind for tag, kind in inner.items() if len(inner) > 1}
        first = next(iter(inner.values()), None)
        keys = list(first.model_fields) if first and not tagged else []
        model = first or model
    return tuple(shown), keys


def _models(annotation: Any, tag: str = "") -> dict[str, type[BaseModel]]:
    """The models in an annotation by their tags; "" where one has none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {tag: annotation}
    own = next((extra.tag for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, Tag)), tag)
    found: dict[str, type[BaseModel]] = {}
    for part in get_args(annotation):
        found = _models(part, own) | found
    return found
