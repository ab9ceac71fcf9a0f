"""Other forms of a pack's tables and plots, made on demand from its CSV alone: LaTeX and Markdown tables, SVG plots."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

from evolora_core.errors import PackError
from evolora_core.pack_folder import PLOTS, TABLES, read_stamp
from evolora_core.report import figures, tables
from evolora_core.report.attribution import found_table, origin_table
from evolora_core.report.curves import curve_table
from evolora_core.report.prices import price_table
from evolora_core.report.tables import Table
from evolora_core.report.tuning import tuning_table

Form = Literal["latex", "md", "svg"]
FORMS: tuple[Form, ...] = ("latex", "md", "svg")

# How people see the data of a CSV.
SHOWN: Mapping[str, Callable[[str, pd.DataFrame], Table]] = {
    "paper_table": tables.shown_paper,
    "comparisons": tables.shown_comparisons,
    "by_family": tables.shown_families,
    "by_routing": tables.shown_routings,
    "compute": tables.shown_compute,
    "prices": price_table,
    "origins": origin_table,
    "found": found_table,
    "tuning": tuning_table,
    "curve": curve_table,
}
_WORDS = ("note", "edge", "bare")  # columns of text in which an empty cell is an empty text, no missing one


def export(folder: Path, forms: Sequence[Form], out: Path) -> list[Path]:
    """Write the tables and plots of the pack `folder` in other forms into `out`; returns the files.

    Raises PackError for a folder that is no pack, and for a file of it that is damaged.
    """
    stamp = read_stamp(folder)
    suite = str(stamp["suite"])
    (out / "plots").mkdir(parents=True, exist_ok=True)
    written = write_tables(read_tables(folder, suite), out, forms)
    if "svg" in forms:
        drawn = {name: _read(file) for name in PLOTS if (file := folder / "plots" / f"{name}.csv").is_file()}
        figures.draw(drawn, out / "plots", suite, stamp["config"], "svg")
        written += [out / "plots" / f"{name}.svg" for name in drawn]
    return written


def read_tables(folder: Path, suite: str) -> dict[str, list[Table]]:
    """The tables of a pack by file name, from its CSV."""
    shown = {}
    for name in TABLES:
        file = folder / f"{name}.csv"
        if not file.is_file():
            continue
        try:
            shown[name] = [SHOWN[name](suite, _read(file))]
        except (KeyError, TypeError, AttributeError) as error:
            raise PackError(f"{file}: does not have the columns of such a table ({error})") from error
    if "paper_table" in shown:
        shown["paper_table"].append(tables.economy_table(shown["paper_table"][0]))
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


def _read(file: Path) -> pd.DataFrame:
    """A CSV as the store would give it: numbers where all cells are, empty texts as such, missing ones as missing."""
    try:
        data = pd.read_csv(file, keep_default_na=False, dtype=str, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PackError(f"{file}: is no table ({error})") from error
    for column in data:
        cells = data[column]
        filled = cells[cells != ""]
        if set(filled) and set(filled) <= {"True", "False"}:
            data[column] = cells == "True"
        elif column not in ("regime", "changes") and len(filled) and _numbers(filled):
            data[column] = pd.to_numeric(cells.where(cells != ""))
        elif column not in _WORDS or (column == "bare" and not len(filled)):
            data[column] = cells.where(cells != "", None)
    return data


def _numbers(cells: "pd.Series[str]") -> bool:
    try:
        pd.to_numeric(cells)
    except ValueError:
        return False
    return True
