"""The paper pack: one folder with tables, plots, a README, provenance, and the rows that all of it is computed from.

Nothing in it is dated, so that the same rows give the same pack, and verifying is building once more and comparing.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evolora_core.engine.artifacts import sha256
from evolora_core.errors import PackError
from evolora_core.language.splits import title
from evolora_core.report import figures
from evolora_core.report.contents import Contents
from evolora_core.report.pack_folder import DATA, STAMP, check_place, put, read_stamp
from evolora_core.report.sections import TEMPLATES, Sections
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import csv, csv_number
from evolora_core.statistics.inference import MIN_SEEDS
from evolora_core.store import carry, read, unpacked


def build(home: Path, suite: str, out: Path, sections: Sections) -> Path:
    """Make the pack of a suite id in the folder `out`, where it replaces another pack; returns `out`.

    Raises PackError if no seed is complete, if the store's comparisons do not follow from its items, or if `out` is a
    folder of something else.
    """
    out = Path(out)
    check_place(out)
    StoredSuite(Path(home), suite).check_complete()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        new = Path(work) / "new"
        carry(Path(home), suite, new / DATA)
        with unpacked(read(new / DATA)) as rows:  # the pack's numbers are computed from the rows that it carries
            contents = Contents(rows, suite, sections=sections)
            if wrong := contents.recount():
                raise PackError(f"{suite}: {wrong[0]} ({len(wrong)} differences); run the suite again")
            plotted = figures.read(contents)
            write_numbers(contents, plotted, new, hashes(new / DATA))
        figures.draw(sections.plots, plotted, new / "plots", suite, contents.config)
        put(new, out, sections.files)
    return out


def build_anew(folder: Path, out: Path, sections: Sections) -> Path:
    """Make a pack again in `out`, which may be its own folder, from the rows that it carries; returns `out`. What the
    stage `compare` left is computed anew.

    For a pack whose words, plots or comparisons are those of an older version. StoreError where it carries no rows.
    """
    suite, tables = str(read_stamp(folder)["suite"]), read(folder / DATA)
    with unpacked(tables) as rows:
        computed = sections.closing(StoredSuite(rows, suite))
    for name, key in sections.closing_keys.items():
        if name in tables:
            new = {tuple(row[k] for k in key): row for row in computed[name]}
            compared = [row | new.get(tuple(row[k] for k in key), {}) for row in tables[name].to_pylist()]
            tables[name] = pa.Table.from_pylist(compared, schema=tables[name].schema)
    with unpacked(tables) as rows:
        return build(rows, suite, out, sections)


def hashes(rows: Path) -> dict[str, str]:
    """The SHA-256 of each file with rows."""
    return {file.name: sha256(file) for file in sorted(rows.glob("*.parquet"))}


def write_numbers(contents: Contents, plotted: dict[str, pd.DataFrame], folder: Path, data: Mapping[str, str]) -> None:
    """Everything with numbers in it: README, tables, summary, provenance, the data of the plots, what files the search
    has beside. `data` are the hashes of the files with rows.
    """
    (folder / "plots").mkdir(parents=True)
    for name, shown in contents.tables.items():
        (folder / f"{name}.csv").write_text(shown[0].to_csv(), encoding="utf-8")
    provenance = contents.provenance | {"data": dict(data)}
    # What was configured is no sum of floats, and makes the suite's id: it stays as it is.
    stamp = _rounded(provenance) | {"config": provenance["config"]}
    for name, document in (("summary.json", _rounded(contents.summary)), (STAMP, stamp)):
        (folder / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for name, table in plotted.items():
        (folder / "plots" / f"{name}.csv").write_text(csv(table), encoding="utf-8")
    for name, text_of in contents.sections.further.items():
        if text := text_of(contents):
            (folder / name).write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(readme(contents, list(plotted)), encoding="utf-8")


def readme(contents: Contents, plots: list[str]) -> str:
    """The README, from the template of the search."""
    template = contents.sections.template
    environment = Environment(
        loader=FileSystemLoader([template.parent, TEMPLATES]), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template(template.name).render(
        c=contents,
        config=contents.config,
        plots=plots,
        min_seeds=MIN_SEEDS,
        title=title,
        **contents.sections.context(contents),
    )


def _rounded(document: Any) -> Any:
    """The document with floats of 12 significant digits."""
    if isinstance(document, dict):
        return {key: _rounded(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_rounded(value) for value in document]
    return csv_number(document)
