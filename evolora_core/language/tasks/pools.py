"""The rows of a task's data set as items, read with `datasets` and checked before anything is computed."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from evolora_core.errors import ConfigError, DataError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.text import one_line
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical
from evolora_core.language.tasks.base import Verifier
from evolora_core.language.tasks.columns import columns_of, filled
from evolora_core.language.tasks.settings import TaskConfig

ALIKE = "all"  # the depth of rows of which nothing says how hard they are
MOST_DEPTHS = 20  # a column of more values is none that says how hard a row is
LONGEST_PROMPT = 100_000  # characters
_READERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True)
class Pool:
    """The items of a task. parts: by part, where the data set is split; under "" where it is not."""

    parts: Mapping[str, tuple[Item, ...]]
    digest: str

    @property
    def depths(self) -> tuple[str, ...]:
        """The depths that occur, sorted."""
        return tuple(sorted({item.depth for items in self.parts.values() for item in items}))


def read_pool(task: TaskConfig) -> Pool:
    """Read and check the rows of a task. ConfigError names the task, the column or row, and the mend.

    What was read is kept as long as its file is the same.
    """
    return _read(task.model_dump_json(), _stamp(task.local))


def _stamp(path: Path | None) -> tuple[tuple[str, int, int], ...]:
    """What changes when local files change: names, sizes, times."""
    files = (
        [] if path is None else [path] if path.is_file() else sorted(own for own in path.rglob("*") if own.is_file())
    )
    return tuple((str(own), own.stat().st_size, own.stat().st_mtime_ns) for own in files)


@lru_cache(maxsize=32)
def _read(document: str, _: tuple[tuple[str, int, int], ...]) -> Pool:
    task = TaskConfig.model_validate_json(document)
    assert task.verifier is not None
    if why := task.verifier.hindrance():
        raise ConfigError(f"tasks.{task.name}.verifier: {why}")
    parts: dict[str, tuple[Item, ...]] = {}
    known: dict[str, str] = {}  # canonical prompt -> where it stands
    asked: list[tuple[str, str | None]] = [*task.splits.items()] if task.splits else [("", None)]
    for part, split in asked:
        rows = _rows(task, split)
        parts[part] = tuple(_items(task, task.verifier, rows, split or "", known))
    if len({item.depth for items in parts.values() for item in items}) > MOST_DEPTHS:
        raise ConfigError(
            f"tasks.{task.name}.depth: column {task.depth!r} has more than {MOST_DEPTHS} values; name one that says "
            "how hard a row is, or leave it out"
        )
    lines = [[part, asdict(item)] for part, items in parts.items() for item in items]
    text = json.dumps(lines, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return Pool(parts, blake2b(text.encode(), digest_size=8).hexdigest())


def _rows(task: TaskConfig, split: str | None) -> Any:
    """The rows of a split; all of them where none is named."""
    import datasets

    assert task.data is not None
    path = task.local
    reader = _READERS.get(path.suffix.lower()) if path and path.is_file() else None
    if path is None and (task.data.startswith(("/", ".", "~")) or Path(task.data).suffix.lower() in _READERS):
        raise ConfigError(
            f"tasks.{task.name}.data: {task.data}: no such file in {Path.cwd()}; paths are relative to the folder that "
            "evolora is called in"
        )
    if path is not None and path.is_file() and reader is None:
        raise ConfigError(
            f"tasks.{task.name}.data: {path.name} is none of {', '.join(_READERS)}; save the rows in one of these"
        )
    datasets.disable_progress_bars()
    if path is not None and path.suffix.lower() == ".jsonl" and path.is_file():
        _check_lines(task, path)
    try:
        if reader is not None:
            found = datasets.load_dataset(reader, data_files=str(path))
        else:
            found = datasets.load_dataset(str(path or task.data), task.subset)
    except Exception as error:  # offline, no such set, a damaged file: one line says it, whichever class it has
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise ConfigError(
            f"tasks.{task.name}.data: {task.data}: cannot be read ({type(error).__name__}: {reason})"
        ) from error
    if split is None:
        return datasets.concatenate_datasets([found[name] for name in found])
    if split not in found:
        raise ConfigError(f"tasks.{task.name}.splits: {task.data} has no split {split!r} but {', '.join(found)}")
    return found[split]


def _check_lines(task: TaskConfig, path: Path) -> None:
    """Raise ConfigError for the first line of JSON Lines that is no object: its reader counts from 0, and says more
    than a line.
    """
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fits = not line.strip() or isinstance(read_json(line, constants=True), dict)
            except ValueError:
                fits = False
            if not fits:
                raise ConfigError(f"tasks.{task.name}.data: {task.data}:{number}: is no JSON; write one object a line")


def _items(task: TaskConfig, verifier: Verifier, rows: Any, split: str, known: dict[str, str]) -> list[Item]:
    columns: dict[str, Sequence[str]] = {"prompt": columns_of(task.prompt)}
    columns["answer"] = [task.answer] if task.answer else []
    columns["depth"] = [task.depth] if task.depth else []
    columns["where"] = [*(task.where or {})]
    columns |= {f"verifier.{key}": names for key, names in verifier.columns().items()}
    for key, names in columns.items():
        for name in names:
            if name not in rows.column_names:
                raise ConfigError(
                    f"tasks.{task.name}.{key}: {task.data} has no column {name!r}; name one of "
                    f"{', '.join(rows.column_names)}"
                )
    found = []
    for number, row in enumerate(rows, start=1):
        if any(str(row[column]) != value for column, value in (task.where or {}).items()):
            continue
        where = f"tasks.{task.name}: {task.data}: row {number}{f' of {split}' if split else ''}"
        prompt = filled(task.prompt, row)
        if not isinstance(prompt, str) or not prompt.strip():
            raise ConfigError(f"{where}: the prompt is empty; take the row out")
        if len(prompt) > LONGEST_PROMPT:
            raise ConfigError(f"{where}: the prompt has more than {LONGEST_PROMPT} characters; shorten it")
        text = canonical(prompt)
        if text in known:
            raise ConfigError(f"{where}: has the prompt of {known[text]}; keep one of them")
        known[text] = f"row {number}{f' of {split}' if split else ''}"
        answer = _plain(row[task.answer]) if task.answer else None
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
        depth = str(row[task.depth]) if task.depth else ALIKE
        digest = blake2b(text.encode(), digest_size=6).hexdigest()
        found.append(Item(prompt, target, task.name, depth, f"{task.name}:{depth}:{digest}"))
    if not found and len(rows) and task.where:
        asked = ", ".join(f"{column} {value!r}" for column, value in task.where.items())
        raise ConfigError(f"tasks.{task.name}: {task.data} has no row with {asked}; {_values(rows, task.where)}")
    if not found:
        raise DataError(f"tasks.{task.name}: {task.data} has no rows{f' in {split}' if split else ''}")
    return found


def _values(rows: Any, where: Mapping[str, str]) -> str:
    """The values that there are, a few of each column."""
    said = []
    for column in where:
        values = sorted({str(value) for value in rows[column]})
        said.append(f"{column} is {', '.join(values[:MOST_DEPTHS])}{' …' if len(values) > MOST_DEPTHS else ''}")
    return one_line("; ".join(said), 300)


def _plain(value: Any) -> Any:
    """A cell as JSON: a number of a table that has gaps is a float, and a gap is None."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() else value
    return value if isinstance(value, str | int | bool | list | dict) or value is None else str(value)
