"""What a search has in its packs: one object, `Sections`.

Every pack has a README, `summary.json`, `provenance.json` and the rows that all numbers are computed from (`data/`).
A search says what else is in it:

- *Tables*, by name. `read` takes the raw rows from the store: they become NAME.csv. Each function of `shows` makes of
  raw rows what people see: Markdown in the README, LaTeX and Markdown in `evolora pack export`, which has the CSV
  alone. Tables that every search may want are here: `COMPARISONS` (comparisons.py), `ACCURACY` (accuracies.py),
  `COMPUTE` (compute.py).
- *Plots*, by name. `read` takes their data from the store, which becomes plots/NAME.csv, `draw` makes the figure of it.
  A plot without rows is left out. There is `COMPARISON_PLOT`.
- *further*: other files of text, by name. Each function makes one of what is stored; an empty text is no file.
- *headline*: the table that `evolora run` prints in the end and that the flow run shows.
- *takeaway*: the sentence about a row of the table `comparisons`, never stronger than its verdict.
- *remarks*: sentences that follow these, on what is to be known before means are read. A README of an earlier version
  may lack some.
- *closing*: the rows of the tables that its stage `compare` leaves, computed anew from the rows of the others; by
  *closing_keys* the columns that tell the rows of each table apart. With these, packs are verified and shards are
  joined.
- *checks*: what must hold whatever the result, each a name and a number.
- *provenance*: what else belongs into provenance.json. A key that is there already is replaced.
- *template*: the README as a Jinja template. It may extend `pack.md.j2`, which shows everything in the order of these
  mappings; its blocks are there to be filled. `context` gives it names of its own beside these:
  `c` (Contents), `config`, `plots` (names), `min_seeds`, `title` (of a split).

All that reads gets a `StoredSuite`: the rows of a pack, or a whole store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from evolora_core.report.pack_folder import DATA, STAMP
from evolora_core.report.stored import COUNTED, StoredSuite
from evolora_core.report.tables import Table
from evolora_core.report.takeaways import takeaway
from evolora_core.store import files

TEMPLATES = Path(__file__).with_name("templates")
Config = Mapping[str, Any]  # a resolved suite


@dataclass(frozen=True)
class PackTable:
    """One table. `texts`: columns of text, in which an empty cell of the CSV is an empty text and digits are no number.
    `optional`: a pack without such rows has no such table.
    """

    read: Callable[[StoredSuite], pd.DataFrame]
    shows: Sequence[Callable[[str, pd.DataFrame], Table]]  # of the suite's id and the rows
    texts: Collection[str] = ()
    optional: bool = False


def everything(rows: pd.DataFrame, config: Config) -> tuple[pd.DataFrame, str]:
    """All rows, with nothing to note."""
    return rows, ""


@dataclass(frozen=True)
class PackPlot:
    """One plot. `narrow` leaves rows out that would say nothing under a configuration, and says so in words that follow
    the names of suite and host above the figure.
    """

    read: Callable[[StoredSuite], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]
    narrow: Callable[[pd.DataFrame, Config], tuple[pd.DataFrame, str]] = everything


def leaks(stored: StoredSuite) -> dict[str, Any]:
    """The check that every search with items has."""
    sql = "SELECT sum(shared)::BIGINT AS shared FROM leaks WHERE suite = $suite"
    (shared,) = stored.frame(sql)["shared"]
    return {"prompts_shared_between_splits": None if pd.isna(shared) else int(shared)}


def nothing(stored: StoredSuite) -> dict[str, Any]:
    """No additions."""
    return {}


def silence(stored: StoredSuite) -> list[str]:
    """No remarks."""
    return []


@dataclass(frozen=True)
class Sections:
    """What a search has in its packs; see above."""

    tables: Mapping[str, PackTable]
    plots: Mapping[str, PackPlot]
    headline: str
    takeaway: Callable[[Mapping[str, Any]], str] = takeaway
    remarks: Callable[[StoredSuite], list[str]] = silence
    checks: Callable[[StoredSuite], dict[str, Any]] = leaks
    closing: Callable[[StoredSuite], Mapping[str, Sequence[Mapping[str, Any]]]] = StoredSuite.counted
    closing_keys: Mapping[str, Sequence[str]] = field(default_factory=lambda: COUNTED)
    provenance: Callable[[StoredSuite], dict[str, Any]] = nothing
    template: Path = TEMPLATES / "pack.md.j2"
    context: Callable[[StoredSuite], dict[str, Any]] = nothing
    further: Mapping[str, Callable[[StoredSuite], str]] = field(default_factory=dict)

    @cached_property
    def exported(self) -> frozenset[str]:
        """Files that `evolora pack export` adds to a pack."""
        tables = [f"{table}.{form}" for table in self.tables for form in ("md", "tex")]
        return frozenset(tables + [f"plots/{plot}.svg" for plot in self.plots])

    @cached_property
    def files(self) -> frozenset[str]:
        """Every file that a pack may have; what else lies there is somebody else's."""
        tables = [f"{table}.csv" for table in self.tables]
        plots = [f"plots/{plot}.{form}" for plot in self.plots for form in ("png", "csv")]
        rows = [f"{DATA}/{name}.parquet" for name in files()]
        return self.exported | frozenset(["README.md", "summary.json", STAMP, *self.further, *tables, *plots, *rows])
