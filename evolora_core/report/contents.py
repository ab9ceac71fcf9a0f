"""Everything that a pack of one suite says: the tables, checks and sentences of its search, and the provenance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evolora_core.errors import StageError
from evolora_core.report.sections import Sections
from evolora_core.report.stored import StoredSuite, document_of, same
from evolora_core.report.tables import Table, rows_of


@dataclass(frozen=True)
class Contents(StoredSuite):
    """A stored suite in the words of its search."""

    sections: Sections = field(kw_only=True)

    @cached_property
    def tables(self) -> dict[str, list[Table]]:
        """The tables by file name; several that share their raw data are shown one after the other. Raises PackError if
        no seed is complete.
        """
        self.check_complete()
        rows = {name: own.read(self) for name, own in self.sections.tables.items()}
        return {
            name: [show(self.suite, rows[name]) for show in own.shows]
            for name, own in self.sections.tables.items()
            if not (own.optional and rows[name].empty)
        }

    @property
    def headline(self) -> Table:
        """The table that says most."""
        return self.tables[self.sections.headline][0]

    @cached_property
    def comparisons(self) -> list[dict[str, Any]]:
        """Rows of the table `comparisons`; none where a search has no such table."""
        return self.tables["comparisons"][0].records() if "comparisons" in self.tables else []

    @cached_property
    def takeaways(self) -> list[str]:
        """One sentence for each declared comparison."""
        return [self.sections.takeaway(row) for row in self.comparisons]

    @cached_property
    def remarks(self) -> list[str]:
        """Sentences on what is to be known before means are read."""
        return self.sections.remarks(self)

    @cached_property
    def checks(self) -> dict[str, Any]:
        """What must hold whatever the result."""
        return self.sections.checks(self)

    def recount(self) -> list[str]:
        """Compute what the stage `compare` left anew from the other rows; returns how the store's tables differ."""
        try:
            computed = self.sections.closing(self)
        except StageError as error:
            return [f"comparisons: {error}"]
        lines: list[str] = []
        for table, key in self.sections.closing_keys.items():
            stored = rows_of(self.frame(f"SELECT * FROM data.{table} WHERE suite = $suite"))
            lines += _differences(table, key, stored, computed[table], self.source)
        return lines

    @cached_property
    def summary(self) -> dict[str, Any]:
        """For programs: the numbers of the tables and the sentences."""
        return {
            "suite": self.suite,
            "seeds": self.seeds,
            "missing_runs": self.missing,
            self.sections.headline: self.headline.records(),
            "comparisons": self.comparisons,
            "takeaways": self.takeaways,
            "checks": self.checks,
        }

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Where the numbers come from: configuration, hashes, versions, threads, and what the search adds."""
        libraries: dict[str, list[str]] = {}
        for row in self.manifests:
            for name, version in document_of(row).get("libraries", {}).items():
                libraries.setdefault(name, [])
                libraries[name] = sorted({*libraries[name], version})
        splits = "SELECT seed, split, sum(n)::BIGINT AS n FROM splits WHERE suite = $suite GROUP BY ALL ORDER BY ALL"
        made = {
            "suite": self.suite,
            "config": self.config,
            "measured_with": [
                {"condition": condition, "seed": seed} | facts
                for (condition, seed), facts in sorted(self.facts.items())
            ],
            "host": next((document_of(r)["host"] for r in self.manifests if document_of(r).get("host")), None),
            "libraries": {name: " and ".join(versions) for name, versions in sorted(libraries.items())},
        }
        return {
            **(made | self.sections.provenance(self)),
            "splits": rows_of(self.frame(splits)),
            "stages": [
                {"run_id": row["run_id"], "stage": row["stage"], "identity": row["manifest"].get("identity")}
                | {"code": document_of(row).get("code"), "seconds": row["manifest"].get("seconds")}
                for row in self.manifests
            ],
        }


def _differences(
    table: str,
    key: Sequence[str],
    stored: Sequence[Mapping[str, Any]],
    computed: Sequence[Mapping[str, Any]],
    source: str,
) -> list[str]:
    """Differences between two versions of a table, one line each."""

    def by_key(rows: Sequence[Mapping[str, Any]]) -> Mapping[tuple[Any, ...], Mapping[str, Any]]:
        return {tuple(row[k] for k in key): row for row in rows}

    old, new = by_key(stored), by_key(computed)
    lines = [f"{table}: {len(stored) - len(old)} rows of {source} stand twice"] if len(old) < len(stored) else []
    for place in sorted(old.keys() | new.keys()):
        name = f"{table} {' '.join(map(str, place))}"
        if place not in old or place not in new:
            where = f"{source}, but not from its items" if place in old else f"its items, but not in {source}"
            lines.append(f"{name}: is in {where}")
            continue
        lines += [
            f"{name}: {column} is {old[place][column]} in {source} and {value} from its items"
            for column, value in new[place].items()
            if not same(old[place][column], value)
        ]
    return lines
