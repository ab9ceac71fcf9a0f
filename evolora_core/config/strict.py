"""The base of every configuration model, and YAML files that answer for their lines."""

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from evolora_core.errors import ConfigError


class Strict(BaseModel):
    """An immutable model in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """YAML with the numbers of its version 1.2, in which `5e-5` is one; PyYAML takes it for text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _yaml(text: str) -> Any:
    try:
        return _Loader(text).get_single_data()
    except ValueError as error:  # a date that no calendar has
        raise yaml.YAMLError(str(error)) from error


def load_yaml(path: Path, model: type[Model], overrides: list[str] | tuple[str, ...] = ()) -> Model:
    """Read `path` as a `model`; `overrides` are dotted settings such as `ecology.generations=4`.

    Raises ConfigError with the file, the line, the key and the nearest valid key or the reason.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name an existing YAML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no text in UTF-8; name a YAML file") from error
    try:
        # What we wrote ourselves is JSON, which YAML reads otherwise where text is escaped.
        written = Path(path).suffix == ".json"
        node = None if written else yaml.compose(text, Loader=yaml.SafeLoader)
        values = json.loads(text) if written else _yaml(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not valid JSON ({error.msg}); run the suite's file again") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{path}:{line}: not valid YAML ({getattr(error, 'problem', error)})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:1: expected a mapping of keys at the top of the file")
    try:
        lines = _lines(node)
    except ConfigError as error:
        raise ConfigError(f"{path}:{error}") from None
    for override in overrides:
        _apply(values, override)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, model, str(path), lines, overrides)) from error


def config_hash(model: BaseModel) -> str:
    """First 8 hex digits of the SHA-256 of the model's canonical JSON."""
    text = json.dumps(model.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one dotted key of nested `values` in place."""
    name, equals, text = override.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {override}: expected KEY=VALUE, for example ecology.generations=4")
    *parents, last = name.strip().split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {override}: '{parent}' is a value and has no keys below it")
    try:
        values[last] = _yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is not valid YAML") from error


def _lines(node: yaml.Node | None, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    """Line number (from 1) of every key and list entry of a YAML document."""
    found: dict[tuple[str, ...], int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
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


def _explain(error: ValidationError, model: type[BaseModel], file: str, lines: dict, overrides) -> str:
    """The first fault of a validation as one line with its place."""
    fault = _first(error)
    path = tuple(str(part) for part in fault["loc"])
    name = ".".join(path)
    keys = [text.partition("=")[0].strip() for text in overrides]
    setting = next((key for key in keys if f"{name}.".startswith(f"{key}.")), None)
    place = f"--set {setting}" if setting else f"{file}:{_nearest_line(path, lines)}"
    return f"{place}: {explain_fault(error, model)}"


def explain_fault(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault of a validation in words: the key and the nearest valid one, or the reason."""
    fault = _first(error)
    path = tuple(str(part) for part in fault["loc"])
    name = ".".join(path)
    if fault["type"] == "extra_forbidden":
        valid = _keys_at(model, path[:-1])
        near = difflib.get_close_matches(path[-1], valid, n=1, cutoff=0.4)
        mend = f"did you mean '{near[0]}'?" if near else f"valid keys: {', '.join(valid)}"
        return f"unknown key '{name}'; {mend}"
    if fault["type"] == "missing":
        return f"key '{name}' is missing; add it"
    reason = fault["msg"].removeprefix("Value error, ")
    where = f"key '{name}': " if name else ""
    given = fault.get("input")
    got = "" if isinstance(given, dict) else f" (got {_short(given)})"  # a whole section says nothing
    return f"{where}{reason[0].lower()}{reason[1:]}{got}"


def _first(error: ValidationError) -> Any:
    """An unknown key if there is one, since it may be the missing one."""
    return min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _nearest_line(path: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _keys_at(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """The valid keys of the sub-model that `path` leads to."""
    named = False  # whether the next part is a name of the user's own, in a mapping of models
    for part in path:
        if named or part.isdigit():  # or an entry of a list of models
            named = False
            continue
        field = model.model_fields.get(part)
        named = field is not None and get_origin(field.annotation) is dict
        kinds = (field.annotation, *get_args(field.annotation)) if field else ()  # a model, or `Model | None`
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)
