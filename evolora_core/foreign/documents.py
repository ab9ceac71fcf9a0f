"""JSON and YAML of others: parsed only where nesting, aliases and numbers stay within bounds."""

import json
import math
from collections.abc import Iterator
from typing import Any

import yaml

from evolora_core.foreign.files import Unfit

DEEPEST = 40  # levels of nesting; our own documents have at most eight
YAML_NODES = 20_000  # of one YAML document, aliases expanded; the largest suite has a few hundred


_QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where PyYAML was built with it


def read_json(text: str, *, constants: bool = False) -> Any:
    """The value of a JSON text. ValueError (Unfit, or JSONDecodeError with its place) where it is none, where it is
    nested too deeply or holds half a character, or, unless `constants`, a number that JSON does not have (NaN,
    infinity, 1e999)."""
    try:
        value = json.loads(text) if constants else json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise Unfit(f"nested more than {DEEPEST} levels deep") from error
    except json.JSONDecodeError:
        raise
    except Unfit:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise Unfit("a number has too many digits") from error
    check_depth(value)
    if "\\ud" in text or "\\uD" in text:
        check_characters(value)
    return value


def read_yaml(text: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> tuple[Any, yaml.Node | None]:
    """The value of a YAML text and its nodes, which know their lines. yaml.YAMLError where it is none, nested too
    deeply, refers to itself, or grows beyond bounds by its aliases."""
    try:
        check_growth(text)
        node = yaml.compose(text, Loader=loader)
        return (loader("").construct_document(node) if node is not None else None), node
    except (ValueError, OverflowError, RecursionError, AttributeError, TypeError, KeyError, IndexError) as error:
        # A date that no calendar has, a tag on a value of another kind: PyYAML's constructors raise what they meet.
        raise yaml.YAMLError(str(error) or type(error).__name__) from error


def check_growth(text: str) -> None:
    """Raise YAMLError if a document is deeper than DEEPEST or, its aliases expanded, has more than YAML_NODES nodes.

    Reads the parser's events, of which there are as many as the text is long: nothing is expanded.
    """
    total, depth = 0, 0
    begun: list[tuple[str, int]] = []  # (anchor or nothing, nodes before it) of the collections that are open
    sizes: dict[str, int] = {}  # of the anchored nodes that are whole
    for event in yaml.parse(text, Loader=_QUICK):
        place: Any = event.start_mark
        anchor: str = getattr(event, "anchor", None) or ""
        if isinstance(event, yaml.AliasEvent):
            if anchor in [name for name, _ in begun]:
                raise yaml.MarkedYAMLError(problem=f"*{anchor} refers to itself", problem_mark=place)
            total += sizes.get(anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            total, sizes[anchor] = total + 1, 1
        elif isinstance(event, yaml.CollectionStartEvent):
            begun.append((anchor, total))
            total, depth = total + 1, depth + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            opened, before = begun.pop()
            sizes[opened] = total - before
            depth -= 1
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"nested more than {DEEPEST} levels deep", problem_mark=place)
        if total > YAML_NODES:
            problem = f"more than {YAML_NODES} values, aliases expanded"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=place)


def check_depth(value: Any) -> None:
    """Raise Unfit if lists and mappings are nested more than DEEPEST levels."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise Unfit(f"nested more than {DEEPEST} levels deep")


def check_characters(value: Any) -> None:
    """Raise Unfit if a text in it holds half a character (a lone surrogate), which no file and no tokenizer takes."""
    level = [value]
    while level:
        for node in level:
            if isinstance(node, str):
                check_text(node)
            elif isinstance(node, dict):
                for key in node:
                    check_text(str(key))
        level = [child for node in level for child in _children(node)] + [
            child for node in level if isinstance(node, dict | list) for child in _texts(node)
        ]


def check_text(text: str) -> None:
    """Raise Unfit if a text holds a lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unfit(f"half a character, \\u{ord(text[error.start]):04x}, which is no text") from None


def check_plain(value: Any, bits: int = 63) -> None:
    """Raise Unfit unless a value is made of mappings with text keys, lists, text, finite numbers of at most so many
    bits, booleans and nothing: what JSON writes and reads back."""
    check_depth(value)
    level = [value]
    while level:
        for node in level:
            if isinstance(node, dict):
                if any(not isinstance(key, str) for key in node):
                    raise Unfit("a key is no text")
            elif isinstance(node, float):
                if not math.isfinite(node):
                    raise Unfit(f"{node} is no number to compute with")
            elif isinstance(node, bool) or node is None or isinstance(node, str | list):
                continue
            elif isinstance(node, int):
                if node.bit_length() > bits:
                    raise Unfit(f"a number of more than {bits} bits")
            else:
                raise Unfit(f"a {type(node).__name__} is no plain value; put it in quotes")
        level = [child for node in level if isinstance(node, dict | list) for child in _all(node)]
    check_characters(value)


def _children(node: Any) -> Iterator[Any]:
    """The collections right below a node."""
    for child in _all(node):
        if isinstance(child, dict | list | tuple | set):
            yield child


def _texts(node: Any) -> Iterator[str]:
    return (child for child in _all(node) if isinstance(child, str))


def _all(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, list | tuple | set):
        yield from node


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Unfit(f"{digits[:20]} is too large for a number")
    return value


def _refuse(name: str) -> float:
    raise Unfit(f"{name} is no JSON number")
