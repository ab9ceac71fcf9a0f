"""Whether every number of a pack follows from the rows that it carries, and these from a store that has them."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import JUDGED
from evolora_core.engine.strict import document_hash
from evolora_core.errors import PackError, StoreError
from evolora_core.report import figures
from evolora_core.report.contents import Contents
from evolora_core.report.other_forms import write_tables
from evolora_core.report.pack import hashes, write_numbers
from evolora_core.report.pack_folder import DATA, STAMP, read_stamp
from evolora_core.report.sections import Sections
from evolora_core.report.stored import StoredSuite, same
from evolora_core.store import carry, query, read, store_path, unpacked
from evolora_core.store.fingerprints import MACHINE

CLOCK = "seconds"  # how columns, and keys of summaries, end that differ from run to run
FOUND = "manifest"  # the column of what a stage found
SHOWN = 3  # rows of a file that are named


def verify(home: Path, folder: Path, sections: Sections) -> list[str]:
    """Compute every number of a pack anew; returns the differences, one line each (none: it verifies).

    From the rows that the pack carries; if the store has these runs, the rows are compared with the store's, and where
    they differ the store with its own items. Comparisons and intervals are computed from the graded items. Raises
    PackError where it carries none.
    """
    folder = Path(folder)
    suite = str(read_stamp(folder)["suite"])
    if not (folder / DATA).is_dir():
        raise PackError(f"{folder}: has no folder {DATA}/ with the rows of its numbers; copy the whole pack")
    stored = _has(home, suite)
    try:
        rows = read(folder / DATA)
        with unpacked(rows) as own:
            differences = _check(Contents(own, suite, "its data", sections=sections), folder, hashes(folder / DATA))
        if stored and not _unfinished(home, suite, rows) and (other := list(_other_rows(rows, home, suite))):
            differences += [*other, *Contents(Path(home), suite, sections=sections).recount()]
        return differences
    except StoreError as error:
        damage = str(error).removeprefix(f"{folder}/")
        told = _check(Contents(Path(home), suite, sections=sections), folder, hashes(folder / DATA)) if stored else []
        return [damage, *told]


def renamed(folder: Path) -> list[str]:
    """Whether the settings of a pack are other than those that its suite's id was made of, as where a comparison was
    taken out of those that Holm corrects for; in one line.
    """
    stamp = read_stamp(folder)
    suite, made_of = str(stamp["suite"]), document_hash(stamp["config"])
    if made_of == SuiteId.of(suite).digest:
        return []
    return [f"{STAMP}: its settings are not those of {suite}: their hash is {made_of}"]


def _has(home: Path, suite: str) -> bool:
    """Whether a store is there and has a whole seed of the suite."""
    return store_path(home).exists() and bool(query(home, "SELECT 1 FROM complete_seeds WHERE suite = ?", [suite]).rows)


def _unfinished(home: Path, suite: str, rows: Mapping[str, pa.Table]) -> bool:
    """Whether the store still lacks runs that the pack has, so that it has nothing to say about it."""
    judged = {f"{row['condition']} s{row['seed']}" for row in rows["stages"].to_pylist() if row["stage"] == JUDGED}
    return not judged.isdisjoint(StoredSuite(Path(home), suite).missing)


def _check(contents: Contents, folder: Path, data: Mapping[str, str]) -> list[str]:
    """How a pack differs from what its source gives."""
    differences = contents.recount()
    plotted = figures.read(contents)
    source = contents.source
    with tempfile.TemporaryDirectory() as work:
        fresh = Path(work) / "pack"
        write_numbers(contents, plotted, fresh, data)
        write_tables(contents.tables, fresh, ("latex", "md"))
        given = [path.relative_to(fresh).as_posix() for path in sorted(fresh.rglob("*")) if path.is_file()]
        for name in map(Path, given):
            if not (folder / name).is_file():
                if name.as_posix() not in contents.sections.exported:
                    differences.append(f"{name}: is missing")
                continue
            try:
                text, now = ((path / name).read_text(encoding="utf-8") for path in (folder, fresh))
            except ValueError:
                differences.append(f"{name}: is not text")
                continue
            if name.name == "README.md":  # an earlier version had fewer remarks, and its numbers are the same
                for remark in (own for own in contents.remarks if own not in text):
                    now = now.replace(f"- {remark}\n", "")
            differences += [f"{name}: {line}" for line in _differences(name.suffix, text, now, source)]
    images = [f"plots/{plot}.png" for plot in plotted]
    differences += [f"{image}: is missing" for image in images if not (folder / image).is_file()]
    expected = {*images, *given, *(f"plots/{plot}.svg" for plot in plotted), *(f"{DATA}/{name}" for name in data)}
    strange = {name for name in contents.sections.files if (folder / name).is_file()} - expected
    return differences + [f"{name}: does not follow from {source}" for name in sorted(strange)]


def _other_rows(rows: Mapping[str, pa.Table], home: Path, suite: str) -> Iterator[str]:
    """Where the rows of a pack are not those of the store, times left out."""
    with tempfile.TemporaryDirectory() as work:
        carry(Path(home), suite, Path(work))
        now = read(Path(work))
    for name in sorted(rows.keys() | now.keys()):
        file = f"{DATA}/{name}.parquet"
        if name not in rows or name not in now:
            yield f"{file}: {'the pack' if name in now else 'the store'} has no such rows"
            continue
        old, new = (_comparable(tables[name]) for tables in (rows, now))
        if len(old) != len(new) or list(old) != list(new):
            shapes = [f"{len(data)} rows of {len(data.columns)} columns" for data in (old, new)]
            yield f"{file}: has {shapes[0]}, the store {shapes[1]}"
            continue
        unlike = ~((old == new) | (old.isna() & new.isna()))
        where = unlike.any(axis=1)
        for place in where[where].index[:SHOWN]:
            column = unlike.columns[unlike.loc[place]][0]
            key = " ".join(str(old.loc[place, k]) for k in ("condition", "seed", "stage", "arm", "split") if k in old)
            was, now_is = (data.loc[place, column] for data in (old, new))
            if column == FOUND:
                told = next(_json_differences("", json.loads(was), json.loads(now_is), "the store"), "")
                if not told:  # another last digit
                    continue
            else:
                told = f"has {column} {_word(was)}, the store gives {_word(now_is)}"
            yield f"{file}: row {place + 1} ({key}) {told}" + (
                f" ({where.sum()} rows differ)" if where.sum() > 1 else ""
            )


def _comparable(table: pa.Table) -> pd.DataFrame:
    """A table without times and without rows that tell of the machine; of a stage what it found, without its identity
    and the rest of its manifest, since code and libraries may be newer.
    """
    data = table.drop_columns([column for column in table.column_names if column == CLOCK]).to_pandas()
    if "manifest" in data:
        found = [_timeless(json.loads(text)) for text in data.pop("manifest")]
        data = data.drop(columns="identity")
        data[FOUND] = [json.dumps({key: own.get(key) for key in ("flops", "summary")}, sort_keys=True) for own in found]
    if "note" in data:
        data = data[~data["note"].fillna("").str.contains(MACHINE, regex=False)]
    result: pd.DataFrame = data.reset_index(drop=True)
    return result


def _timeless(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _timeless(value) for key, value in part.items() if not key.endswith(CLOCK)}
    return [_timeless(one) for one in part] if isinstance(part, list) else part


def _word(value: Any) -> str:
    return str(value.item() if hasattr(value, "item") else value)


def _differences(suffix: str, text: str, now: str, source: str) -> Iterator[str]:
    """Where a file of the pack and what its source gives now are not the same."""
    if text == now:
        return
    if suffix == ".json":
        try:
            yield from _json_differences("", json.loads(text), json.loads(now), source)
        except (ValueError, RecursionError) as error:
            yield f"is not JSON ({error})"
        return
    old, new = text.splitlines(), now.splitlines()
    if len(old) != len(new):
        yield f"has {len(old)} lines, {source} gives {len(new)}"
    for number, (left, right) in enumerate(zip(old, new, strict=False), start=1):
        cells = [line.split(",") if suffix == ".csv" else [line] for line in (left, right)]
        if len(cells[0]) != len(cells[1]):
            yield f"line {number} has {len(cells[0])} cells, {source} gives {len(cells[1])}"
        for was, is_now in zip(*cells, strict=False):
            if not same(_number(was), _number(is_now)):
                yield f"line {number} has `{was.strip()}`, {source} gives `{is_now.strip()}`"


def _json_differences(place: str, old: Any, new: Any, source: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _json_differences(f"{place}.{key}".lstrip("."), old.get(key), new.get(key), source)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _json_differences(f"{place}[{i}]", left, right, source)
    elif not same(old, new):
        yield f"{place} is {json.dumps(old)}, {source} gives {json.dumps(new)}"


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
