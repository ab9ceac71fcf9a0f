"""Read holdout files: JSON Lines in either of the two published forms, every row graded as it stands.

Grid form: `{"prompt", "target", "family", "depth", "task_id"?}`. Regex form: `{"prompt", "capability", "test_cases",
"expected_answer", "metadata", "target_regex", …}`, which becomes an item of `regex.<capability>`: recognition by
`expected_answer`; synthesis, debugging and refactoring by `test_cases`; explanation and mutation effects by
`metadata.required_keywords` (a recognition row that has these is a mutation effect). Further keys say what kind of item
a row is, and are ignored unless they choose among the rows.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evolora_core.errors import ConfigError, DataError
from evolora_core.foreign.documents import check_plain, read_json
from evolora_core.foreign.files import Unfit, read_bytes
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import get
from evolora_core.language.tasks.base import spelled

CAPABILITIES = ("recognition", "synthesis", "explanation", "debugging", "refactoring", "mutation_effect")
_KEYS = {  # of a target, and what the regex form calls them
    "expected": "expected_answer",
    "test_strings": "test_cases",
    "required_keywords": "metadata.required_keywords",
    "original_pattern": "metadata.original_pattern",
    "pattern": "target_regex",
}
LONGEST_ROW = 2**20  # bytes; the longest prompt that a host reads is far shorter
LARGEST_BITS = 4096  # of an integer: a thousand digits
UNSPECIFIED = "unspecified"  # the depth of a regex row that names none


def read_holdout(path: Path, where: Mapping[str, str | None] = MappingProxyType({})) -> list[Item]:
    """The items of a holdout file, in its order; families under their full names. where: only those of rows whose keys
    have these values as text; None stands for null, and for a key that a row lacks.

    Rows without a task_id become `task_<index>`, a repeated id gets `__2`, `__3`, … DataError, in one line, names the
    file, the line and the key that is wrong, and how to mend it.
    """
    items: list[Item] = []
    repeats: dict[str, int] = {}
    taken: set[str] = set()
    rows = list(_rows(Path(path)))
    for index, (number, row) in enumerate(rows):
        try:
            prompt, family, depth, target = _regex_row(row) if _is_regex_form(row) else _grid_row(row)
            name = _text(row, "task_id") if row.get("task_id") is not None else f"task_{index}"
        except _Trouble as trouble:
            raise DataError(f"{path}:{number}: {trouble}") from None
        repeats[name] = repeats.get(name, 0) + 1
        while (task_id := name if repeats[name] == 1 else f"{name}__{repeats[name]}") in taken:
            repeats[name] += 1
        taken.add(task_id)
        if all(_value(row, key) == value for key, value in where.items()):
            items.append(Item(prompt, target, family, depth, task_id))
    if not rows:
        raise DataError(f"{path}: has no rows; write one JSON object a line")
    if not items:
        raise DataError(f"{path}: has no row with {_told(where)}; {'; '.join(_there(rows, key) for key in where)}")
    return items


def _value(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    return None if value is None else spelled(value)


def _told(where: Mapping[str, str | None]) -> str:
    return " and ".join(f"{key} {'null' if value is None else repr(value)}" for key, value in where.items())


def _there(rows: list[tuple[int, dict[str, Any]]], key: str) -> str:
    """Which values a key has in a file, in words."""
    if not any(key in row for _, row in rows):
        return f"no row has the key {key}; the first has {', '.join(rows[0][1])}"
    values = sorted({str(_value(row, key) or "null")[:40] for _, row in rows})
    return f"{key} has {', '.join(values[:10])}{', …' if len(values) > 10 else ''}"


class _Trouble(Exception):
    """What is wrong with one row: `key: mend`."""


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number from 1, object) of each line that is not blank."""
    try:
        content = read_bytes(path)
    except Unfit as error:
        raise DataError(f"{path}: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); name an existing JSON Lines file") from error
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        if len(line) > LONGEST_ROW:
            raise DataError(f"{path}:{number}: longer than {LONGEST_ROW} bytes; shorten the row")
        try:
            row = read_json(line.decode("utf-8"))
            check_plain(row, bits=LARGEST_BITS)
        except UnicodeDecodeError:
            raise DataError(f"{path}:{number}: not UTF-8; save the file in that encoding") from None
        except json.JSONDecodeError as error:
            place = f"{error.msg.lower()}, column {error.colno}"
            raise DataError(f"{path}:{number}: not valid JSON ({place}); write one object a line") from None
        except ValueError as error:
            raise DataError(f"{path}:{number}: not valid JSON ({error}); write one object a line") from None
        if not isinstance(row, dict):
            raise DataError(
                f"{path}:{number}: not a JSON object; write one object with prompt, target, family and depth"
            )
        yield number, row


def _is_regex_form(row: dict[str, Any]) -> bool:
    return "capability" in row and "target" not in row


def _grid_row(row: dict[str, Any]) -> tuple[str, str, str, Any]:
    """(prompt, family, depth, target)."""
    prompt, name, depth = _text(row, "prompt"), _text(row, "family"), _text(row, "depth")
    if "target" not in row:
        raise _Trouble("target: missing; give the answer that is graded against")
    try:
        family = get(name)
    except ConfigError as error:
        raise _Trouble(f"family: {error}") from None
    try:
        complaint = family.complaint(row["target"])
    except ConfigError as error:  # of a user's own family
        raise _Trouble(f"target: {error}") from None
    if complaint:
        raise _Trouble(f"target: {complaint} (family {family.name})")
    return prompt, family.name, depth, row["target"]


def _regex_row(row: dict[str, Any]) -> tuple[str, str, str, Any]:
    """(prompt, family, depth, target)."""
    prompt, capability = _text(row, "prompt"), _text(row, "capability")
    if capability not in CAPABILITIES:
        raise _Trouble(f"capability: '{capability}' is none of {', '.join(CAPABILITIES)}")
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _Trouble("metadata: must be an object")
    keywords, pattern = metadata.get("required_keywords"), row.get("target_regex")
    if capability == "recognition" and keywords is not None:
        capability = "mutation_effect"
    target: dict[str, Any] = {"pattern": pattern}
    if capability == "recognition":
        target["expected"] = row.get("expected_answer")
    elif capability in ("explanation", "mutation_effect"):
        target["required_keywords"] = keywords
    else:
        target |= {"test_strings": row.get("test_cases"), "original_pattern": metadata.get("original_pattern")}
    family = get(f"regex.{capability}")
    complaint = family.complaint(target)
    if complaint:
        key = re.split(r"\W", complaint)[0]
        raise _Trouble(_KEYS[key] + complaint.removeprefix(key))
    depth = _text(row, "depth") if row.get("depth") is not None else UNSPECIFIED
    return prompt, family.name, depth, target


def _text(row: dict[str, Any], key: str) -> str:
    if key not in row:
        raise _Trouble(f"{key}: missing; give it as text")
    if not isinstance(row[key], str) or not row[key].strip():
        raise _Trouble(f"{key}: must be text, not {json.dumps(row[key])[:40]}")
    text: str = row[key]
    return text
