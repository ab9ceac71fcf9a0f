"""What the keys of a settings model mean: a row for each, made of its JSON schema."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

NAME, ITEM = "NAME", "[]"  # in a key: a name of one's own, and every item of a list
BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
ENDLESS = 2**62  # a bound that is only that of the machine's integers


@dataclass(frozen=True)
class Key:
    """One key of a file of settings.

    key          dotted, such as `ecology.contest.every`, `arms.NAME.budget` or `evaluation.comparisons[].a`
    values       what it takes, with bounds; "" for a section
    default      as it would stand in the file; "" for a section; "required" where a key or section has to be given
    description  one or two sentences
    """

    key: str
    values: str
    default: str
    description: str


def describe(model: type[BaseModel]) -> list[Key]:
    """The keys of a model in the order in which they are declared, sections before what is in them."""
    schema = model.model_json_schema()
    return list(_keys("", schema, schema.get("$defs", {}), {}))


def _keys(
    prefix: str, node: Mapping[str, Any], definitions: Mapping[str, Any], own: Mapping[str, Any]
) -> Iterator[Key]:
    """The keys of an object. `own` has the defaults that its section brings, which go before those of its kind."""
    required = set(node.get("required", [])) - set(own)
    for name, schema in node.get("properties", {}).items():
        brought = own.get(name, schema.get("default"))
        given = schema if brought == schema.get("default") else {**schema, "default": brought}
        if not _variants(given, definitions):  # a key of other searches, which takes nothing here
            continue
        key = f"{prefix}{name}"
        said = _said(given, definitions) or _said(node, definitions)  # of a `kind`, what is said of its section
        if below := list(_inner(key, given, definitions)):
            yield Key(key, "", "required" if name in required else "", said)
            yield from below
        else:
            default = "required" if name in required else _default(given)
            yield Key(key, _values(given, definitions), default, said)


def _default(given: Mapping[str, Any]) -> str:
    """The default as text. A list that is made anew for every model has none in the schema: it is empty."""
    value = given.get("default", [] if given.get("type") == "array" else None)
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _inner(key: str, given: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[Key]:
    """The keys below one: of a section, of each item of a list, or of what stands under names of one's own."""
    own = given.get("default")
    for node in _variants(given, definitions):
        yield from _keys(f"{key}.", node, definitions, own if isinstance(own, Mapping) else {})
        if "items" in node:
            yield from _inner(f"{key}{ITEM}", node["items"], definitions)
        for named in node.get("patternProperties", {}).values():
            yield from _inner(f"{key}.{NAME}", named, definitions)
        if isinstance(free := node.get("additionalProperties"), Mapping):
            yield from _inner(f"{key}.{NAME}", free, definitions)


def _variants(given: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a node may be, references followed; `null` is left out."""
    if "$ref" in given:
        return _variants(definitions[given["$ref"].rpartition("/")[2]], definitions)
    several = given.get("anyOf") or given.get("oneOf") or []
    found = [own for one in several for own in _variants(one, definitions)] if several else [given]
    return [own for own in found if own.get("type") != "null"]


def _said(given: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Its description, or that of the section that it is."""
    text = given.get("description") or next(
        (own["description"] for own in _variants(given, definitions) if own.get("description")), ""
    )
    return " ".join(str(text).split())


def _values(given: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_kind(own, definitions) for own in _variants(given, definitions)))


def _kind(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "enum" in node or "const" in node:
        return ", ".join(map(str, node.get("enum", [node.get("const")])))
    kind = {"object": "mapping", "string": "text", "boolean": "true, false"}.get(node.get("type", ""), node.get("type"))
    if kind == "array":
        each = [*node.get("prefixItems", []), *filter(None, [node.get("items")])]
        return f"list of {' or '.join(dict.fromkeys(_values(own, definitions) for own in each)) or 'anything'}"
    bounds = [
        f"{word} {_number(node[name])}" for name, word in BOUNDS.items() if abs(node.get(name, ENDLESS)) < ENDLESS
    ]
    return " ".join([kind or "anything", *bounds])


def _number(bound: float) -> str:
    return f"{bound:g}" if abs(bound) < 1e-4 else f"{bound:,}".removesuffix(".0")
