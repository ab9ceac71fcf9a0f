"""The rows of a task's data set as items, checked before anything is computed."""

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from evolora_core.errors import ConfigError, DataError
from evolora_core.foreign.text import one_line, one_value
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical
from evolora_core.language.tasks.base import Verifier, spelled
from evolora_core.language.tasks.columns import columns_of, filled
from evolora_core.language.tasks.rows import Rows, read_rows
from evolora_core.language.tasks.settings import TaskConfig

ALIKE = "all"  # the depth of rows of which nothing says how hard they are
MOST_DEPTHS = 20  # a column of more values is none that says how hard a row is
LONGEST_PROMPT = 100_000  # characters
LISTED = 5  # rows with faults that are named beside the first


@dataclass(frozen=True)
class Pool:
    """The items of a task. parts: by part, where the data set is split; under "" where it is not."""

    parts: Mapping[str, tuple[Item, ...]]
    digest: str

    @property
    def depths(self) -> tuple[str, ...]:
        """The depths that occur, sorted."""
        return tuple(sorted({item.depth for items in self.parts.values() for item in items}))


def read_pools(tasks: Iterable[TaskConfig]) -> dict[str, Pool]:
    """The rows of each task that has any, by its name."""
    return {task.name: read_pool(task) for task in tasks if task.data is not None}


def read_pool(task: TaskConfig) -> Pool:
    """Read and check the rows of a task. ConfigError names the task, the column or row, and the mend.

    What was read is kept as long as its file is the same.
    """
    return _read(task.model_dump_json(), _stamp(task.local))


def files_of(path: Path | None) -> list[Path]:
    """The local files of a data set: one, or those of a folder."""
    if path is None or path.is_file():
        return [path] if path else []
    return sorted(own for own in path.rglob("*") if own.is_file())


def _stamp(path: Path | None) -> tuple[tuple[str, int, int], ...]:
    """What changes when local files change: names, sizes, times."""
    return tuple((str(own), own.stat().st_size, own.stat().st_mtime_ns) for own in files_of(path))


@lru_cache(maxsize=32)
def _read(document: str, _: tuple[tuple[str, int, int], ...]) -> Pool:
    task = TaskConfig.model_validate_json(document)
    assert task.verifier is not None
    if why := task.verifier.hindrance():
        raise ConfigError(f"tasks.{task.name}.verifier: {why}")
    parts: dict[str, tuple[Item, ...]] = {}
    known: dict[str, tuple[str, str]] = {}  # canonical prompt -> where it stands, and its answer
    asked: list[tuple[str, str | None]] = [*task.splits.items()] if task.splits else [("", None)]
    for part, split in asked:
        rows = read_rows(task, split)
        parts[part] = tuple(_items(task, task.verifier, rows, split or "", known))
    if len({item.depth for items in parts.values() for item in items}) > MOST_DEPTHS:
        raise ConfigError(
            f"tasks.{task.name}.depth: column {task.depth!r} has more than {MOST_DEPTHS} values; name one that says "
            "how hard a row is, or leave it out"
        )
    lines = [[part, asdict(item)] for part, items in parts.items() for item in items]
    text = json.dumps(lines, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return Pool(parts, blake2b(text.encode(), digest_size=8).hexdigest())


def _items(
    task: TaskConfig, verifier: Verifier, rows: Rows, split: str, known: dict[str, tuple[str, str]]
) -> list[Item]:
    """The items of one part, in the order of its rows; `known` says where each canonical prompt stood first, and its
    answer. ConfigError explains the first fault, and names other rows that have one.
    """
    if not rows.rows:
        raise DataError(f"tasks.{task.name}: {task.data} has no rows{f' in {split}' if split else ''}; add some")
    columns = _columns(task, verifier)
    _check_columns(task, columns, rows)
    found, faults = [], dict[int, ConfigError]()
    unit, numbers = ("line", rows.lines) if rows.lines else ("row", range(1, len(rows.rows) + 1))
    for number, row in zip(numbers, rows.rows, strict=True):
        if any(spelled(row[column]) != value for column, value in (task.where or {}).items()):
            continue
        place = f"{unit} {number}{f' of {split}' if split else ''}"
        where = f"tasks.{task.name}: {task.data}{f':{number}' if rows.lines else f': {place}'}"
        try:
            _check_cells(task, columns, row, where)
            prompt = _prompt(task, columns["prompt"], row, where)
            _check_new(prompt, spelled(row[task.answer]) if task.answer else "", place, where, known)
            target = _target(task, verifier, row, where)
        except ConfigError as error:
            faults[number] = error
            continue
        depth = spelled(row[task.depth]) if task.depth else ALIKE
        digest = blake2b(canonical(prompt).encode(), digest_size=6).hexdigest()
        found.append(Item(prompt, target, task.name, depth, f"{task.name}:{depth}:{digest}"))
    if faults:
        (_, first), *others = faults.items()
        listed = [*(str(number) for number, _ in others[:LISTED]), *(["…"] if len(others) > LISTED else [])]
        more = f" (and {len(others)} more: {unit}{'s' if len(others) > 1 else ''} {', '.join(listed)})"
        raise ConfigError(f"{first}{more if others else ''}")
    if not found and task.where:
        asked = ", ".join(f"{column} {value!r}" for column, value in task.where.items())
        raise ConfigError(f"tasks.{task.name}: {task.data} has no row with {asked}; {_values(rows, task.where)}")
    return found


def _columns(task: TaskConfig, verifier: Verifier) -> dict[str, Sequence[str]]:
    """The columns that a task reads, by the key of its settings that names them."""
    return {
        "prompt": columns_of(task.prompt),
        "answer": [task.answer] if task.answer else [],
        "depth": [task.depth] if task.depth else [],
        "where": [*(task.where or {})],
        **{f"verifier.{key}": names for key, names in verifier.columns().items()},
    }


def _check_columns(task: TaskConfig, columns: Mapping[str, Sequence[str]], rows: Rows) -> None:
    """Refuse a column that the data set does not have."""
    for key, names in columns.items():
        for name in names:
            if name not in rows.columns:
                told = " (of `where`, or of `family` of the task that this is one of)" if key == "where" else ""
                raise ConfigError(
                    f"tasks.{task.name}.{key}: {task.data} has no column {name!r}{told}; name one of "
                    f"{', '.join(rows.columns)}"
                )


def _check_cells(task: TaskConfig, columns: Mapping[str, Sequence[str]], row: Mapping[str, Any], where: str) -> None:
    """Refuse a row with a cell that is empty where it must not be, or of which no text can be made."""
    needed = {*columns["prompt"], *columns["depth"]} if "{" in task.prompt else {*columns["depth"]}
    for column in sorted({name for names in columns.values() for name in names}):
        cell = row[column]
        if (column in columns["depth"] and not spelled(cell).strip()) or (cell is None and column in needed):
            raise ConfigError(f"{where}: column {column!r} is empty; fill it in, or take the row out")
        if isinstance(cell, bytes):
            raise ConfigError(f"{where}: column {column!r} holds bytes that are no text in UTF-8; make it text")
        if _dated(cell):
            raise ConfigError(
                f"{where}: column {column!r} holds dates by its type, so that nobody knows how they were written; "
                "make it text (a single file of CSV or JSON Lines is read as it is written)"
            )
        if isinstance(cell, list | dict) and column in columns["prompt"]:
            raise ConfigError(f"{where}: column {column!r} is a list or an object; a prompt is made of text")


def _prompt(task: TaskConfig, columns: Sequence[str], row: Mapping[str, Any], where: str) -> str:
    prompt = spelled(filled(task.prompt, {name: spelled(row[name]) for name in columns}))
    if not prompt.strip():
        raise ConfigError(f"{where}: the prompt is empty; take the row out")
    if len(prompt) > LONGEST_PROMPT:
        raise ConfigError(f"{where}: the prompt has more than {LONGEST_PROMPT} characters; shorten it")
    return prompt


def _check_new(prompt: str, answer: str, place: str, where: str, known: dict[str, tuple[str, str]]) -> None:
    """Refuse a prompt that is known; another becomes known."""
    first, before = known.setdefault(canonical(prompt), (place, answer))
    if first == place:
        return
    mend = "keep one of them"
    if answer != before:
        mend = f"its answer is {one_value(answer, 40)}, and there {one_value(before, 40)}: keep the right one"
    raise ConfigError(f"{where}: has the prompt of {first}, as case and white space do not count; {mend}")


def _target(task: TaskConfig, verifier: Verifier, row: Mapping[str, Any], where: str) -> Any:
    """What a row's answers are graded against. Its own answer, where it has one, has to be right by it."""
    answer = row[task.answer] if task.answer else None
    target = verifier.target(answer, row)
    if target is None and verifier.labelled:
        raise ConfigError(
            f"{where}: has no answer, and the verifier {verifier.kind} needs one; fill it in, or take the row out"
        )
    if complaint := verifier.complaint(target):
        raise ConfigError(f"{where}: the answer {str(answer)[:60]!r} {complaint}; mend it, or take the row out")
    if verifier.has_gold(target) and not (given := verifier.verify(target, verifier.gold(target))).correct:
        raise ConfigError(
            f"{where}: the verifier refuses the row's own answer {str(answer)[:60]!r} ({given.reason}); "
            "mend the row or the verifier's settings"
        )
    return target


def _values(rows: Rows, where: Mapping[str, str]) -> str:
    """The values that there are, a few of each column."""
    said = []
    for column in where:
        values = sorted({spelled(row[column]) for row in rows.rows})
        said.append(f"{column} is {', '.join(values[:MOST_DEPTHS])}{' …' if len(values) > MOST_DEPTHS else ''}")
    return one_line("; ".join(said), 300)


def _dated(value: object) -> bool:
    """Whether a cell has a date or a time in it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, datetime.date | datetime.time) or any(map(_dated, inner))
