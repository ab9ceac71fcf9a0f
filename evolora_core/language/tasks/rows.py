"""The rows of a task's data set, as whoever wrote them wrote them.

Files of text are read here, cell by cell: a reader that guesses types makes timestamps of dates, floats of long
integers, and `None` or `007` into something else, in gold answers too. All else is read with `datasets`.
"""

import csv
import datetime
import glob
import io
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evolora_core.engine.strict import repeated
from evolora_core.errors import ConfigError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.text import one_line
from evolora_core.language.tasks.settings import TaskConfig

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")


@dataclass(frozen=True)
class Rows:
    """Rows by column. A gap is None; a cell of a CSV file is text. Cells that a table types as dates stay dates: how
    they were written is not known any more.

    lines: the line of the file in which each row begins; empty where rows are no lines
    """

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    lines: Sequence[int] = ()


def read_rows(task: TaskConfig, split: str | None) -> Rows:
    """The rows of a split; all of them where none is named. ConfigError names the task, the file and the mend."""
    assert task.data is not None
    path, key = task.local, f"tasks.{task.name}.data"
    if path is None and (task.data.startswith(("/", ".", "~")) or Path(task.data).suffix.lower() in SUFFIXES):
        relative = f" in {Path.cwd()}; paths are relative to the folder that evolora is called in"
        raise ConfigError(f"{key}: {task.data}: no such file{'' if Path(task.data).is_absolute() else relative}")
    if path is not None and path.is_file() and task.subset is not None:
        raise ConfigError(
            f"tasks.{task.name}.subset: {task.data} is one file, which has no configurations; take it out"
        )
    suffix = path.suffix.lower() if path else ""
    if path is None or path.is_dir() or suffix == ".parquet":
        return _read_set(task, split)
    if suffix not in SUFFIXES:
        raise ConfigError(f"{key}: {path.name} is none of {', '.join(SUFFIXES)}; save the rows in one of these")
    if split not in (None, "train"):  # what `datasets` calls the one split of a file
        raise ConfigError(f"tasks.{task.name}.splits: {task.data} has no split {split!r} but train")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
        return _read_csv(text) if suffix == ".csv" else _read_json(text, lines=suffix == ".jsonl")
    except _Fault as fault:
        raise ConfigError(f"{key}: {task.data}{fault}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}: {task.data}: byte {error.start} is no UTF-8; save the file as UTF-8") from None


class _Fault(Exception):
    """What is wrong with a file, and where: it stands behind the file's name."""


def _read_csv(text: str) -> Rows:
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # the same for every reader of a process
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, numbers, begun = [], [], 1
    try:
        head = next(lines, [])
        if len(head) == 1 and (mark := next((own for own in ";\t" if own in head[0]), None)):
            raise _Fault(f":1: has {'semicolons' if mark == ';' else 'tabs'} and no comma; save the file with commas")
        if (twice := repeated(head)) is not None:
            raise _Fault(f": column {twice!r} stands twice; give one another name")
        begun = lines.line_num + 1
        for cells in lines:
            if len(cells) > len(head):
                raise _Fault(
                    f":{begun}: has {len(cells)} cells, and the head {len(head)}; put cells with commas in quotes"
                )
            if cells:
                known = dict(zip(head, cells, strict=False))
                rows.append({name: known.get(name) or None for name in head})
                numbers.append(begun)
            begun = lines.line_num + 1
    except csv.Error as error:
        if lines.line_num > begun or "unexpected end" in str(error):
            raise _Fault(
                f":{begun}: a quote opened in this row is not closed (line {lines.line_num}: {error}); close it"
            ) from None
        raise _Fault(f":{begun}: {error}; mend the line (within quotes a quote stands twice)") from None
    return Rows(head, rows, numbers)


def _read_json(text: str, *, lines: bool) -> Rows:
    """One object a line; or, unless only `lines` will do, one array of objects."""
    if lines or not text.lstrip().startswith("["):
        found = {number: line for number, line in enumerate(text.split("\n"), start=1) if line.strip()}
        rows = [_object(f":{number}", line) for number, line in found.items()]
    else:
        found = {}
        try:
            rows = read_json(text, constants=True)
        except json.JSONDecodeError as error:
            raise _Fault(f":{error.lineno}: is no JSON ({error.msg}); mend the line") from None
        except ValueError as error:
            raise _Fault(f": {error}") from None
        if any(not isinstance(row, dict) for row in rows):
            raise _Fault(": holds something that is no object; write a list of objects")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Rows(columns, [{name: _finite(row.get(name)) for name in columns} for row in rows], [*found])


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        row = read_json(line, constants=True)
    except ValueError as error:
        raise _Fault(f"{where}: is no JSON; write one object a line") from error
    if not isinstance(row, dict):
        raise _Fault(f"{where}: is no object of JSON; write one a line")
    return row


def _read_set(task: TaskConfig, split: str | None) -> Rows:
    """A Parquet file, a folder, or a set of the hub."""
    import datasets

    datasets.disable_progress_bars()
    try:
        if task.local is not None and task.local.is_file():
            found = datasets.load_dataset("parquet", data_files=glob.escape(str(task.local)))
        else:
            found = datasets.load_dataset(str(task.local or task.data), task.subset)
    except Exception as error:  # offline, no such set, a damaged file: one line says it, whichever class it has
        reason = one_line(error.__cause__ or error, 200)
        raise ConfigError(
            f"tasks.{task.name}.data: {task.data}: cannot be read ({type(error).__name__}: {reason}); check the name, "
            "or save the rows as .csv or .jsonl"
        ) from error
    if split is not None and split not in found:
        raise ConfigError(f"tasks.{task.name}.splits: {task.data} has no split {split!r} but {', '.join(found)}")
    whole = found[split] if split is not None else datasets.concatenate_datasets([found[name] for name in found])
    names = {
        column: kind for column, kind in whole.features.items() if isinstance(kind, datasets.ClassLabel) and kind.names
    }
    narrow = {
        column: np.dtype(kind.dtype).type
        for column, kind in whole.features.items()
        if isinstance(kind, datasets.Value) and kind.dtype in ("float16", "float32")
    }
    rows = [
        _cells(row | {column: _decimal(kind, row[column]) for column, kind in narrow.items()})
        | {column: _named(kind, row[column]) for column, kind in names.items()}
        for row in whole
    ]
    return Rows(whole.column_names, rows)


def _named(kind: Any, value: Any) -> str | None:
    """What a label is called: sets of the hub store its number, and −1 where there is none."""
    return None if value is None or value < 0 else str(kind.int2str(value))


def _decimal(kind: Any, value: float | None) -> float | None:
    """A number of fewer bits by its shortest decimal: 0.1, where the nearest float32 is 0.10000000149."""
    return None if value is None else float(str(kind(value)))


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """A cell of a typed table as JSON: where integers have gaps, the table may hold floats. Older Parquet files hold
    text as bytes.
    """
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode("utf-8")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    value = _finite(value)
    kept = (str, bytes, int, float, bool, list, dict, datetime.date, datetime.time)
    return value if value is None or isinstance(value, kept) else str(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
