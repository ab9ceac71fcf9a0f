"""Other forms of a pack's tables and plots, made on demand from its CSV alone: LaTeX and Markdown tables, SVG plots."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

from evolora_core.errors import PackError
from evolora_core.report import figures
from evolora_core.report.pack_folder import read_stamp
from evolora_core.report.sections import Sections
from evolora_core.report.tables import Table

Form = Literal["latex", "md", "svg"]


def export(folder: Path, forms: Sequence[Form], out: Path, sections: Sections) -> list[Path]:
    """Write the tables and plots of the pack `folder` in other forms into `out`; returns the files.

    Raises PackError for a folder that is no pack, and for a file of it that is damaged.
    """
    stamp = read_stamp(folder)
    suite = str(stamp["suite"])
    (out / "plots").mkdir(parents=True, exist_ok=True)
    written = write_tables(read_tables(folder, suite, sections), out, forms)
    if "svg" in forms:
        drawn = {name: _read(file) for name in sections.plots if (file := folder / "plots" / f"{name}.csv").is_file()}
        for name, rows in drawn.items():
            try:
                figures.draw(sections.plots, {name: rows}, out / "plots", suite, stamp["config"], "svg")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                file = folder / "plots" / f"{name}.csv"
                raise PackError(f"{file}: does not have the rows of such a plot ({error})") from error
        written += [out / "plots" / f"{name}.svg" for name in drawn]
    return written


def read_tables(folder: Path, suite: str, sections: Sections) -> dict[str, list[Table]]:
    """The tables of a pack by file name, from its CSV."""
    shown = {}
    for name, table in sections.tables.items():
        file = folder / f"{name}.csv"
        if not file.is_file():
            continue
        try:
            rows = _read(file, table.texts)
            shown[name] = [show(suite, rows) for show in table.shows]
        except (KeyError, TypeError, AttributeError) as error:
            raise PackError(f"{file}: does not have the columns of such a table ({error})") from error
    return shown


def write_tables(shown: Mapping[str, Sequence[Table]], out: Path, forms: Sequence[str]) -> list[Path]:
    """Write tables as LaTeX (NAME.tex) and Markdown (NAME.md), those of one name after another; returns the files."""
    written = []
    for name, own in shown.items():
        texts = {
            "tex": "\n".join(table.to_latex() for table in own) if "latex" in forms else "",
            "md": "\n".join(f"{t.caption}\n\n{t.to_markdown()}" for t in own) if "md" in forms else "",
        }
        for suffix, text in texts.items():
            if text:
                written.append(out / f"{name}.{suffix}")
                written[-1].write_text(text, encoding="utf-8")
    return written


NAMES = ("a", "arm", "b", "condition", "family", "routing", "split")  # a split may be called 2024


def _read(file: Path, texts: Collection[str] = ()) -> pd.DataFrame:
    """A CSV as the store would give it: numbers where all cells are, missing ones as missing; `texts` stay texts."""
    try:
        data = pd.read_csv(file, keep_default_na=False, dtype=str, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PackError(f"{file}: is no table ({error})") from error
    for column in data.columns.difference([*NAMES, *texts]):
        cells = data[column]
        filled = cells[cells != ""]
        if set(filled) and set(filled) <= {"True", "False"}:
            data[column] = cells == "True"
        elif len(filled) and _numbers(filled):
            data[column] = pd.to_numeric(cells.where(cells != ""))
        else:
            data[column] = cells.where(cells != "", None)
    return data


def _numbers(cells: "pd.Series[str]") -> bool:
    try:
        pd.to_numeric(cells)
    except ValueError:
        return False
    return True
